# SPDX-License-Identifier: Apache-2.0
#
# A Debian package and an OCI image, and their test; and the article made of the program's help.

.PHONY: package package-test commands

COMMANDS := Sources/Martlet/Martlet.docc/Commands.md

## Makes the article Commands of what the program says of its commands.
# MartletCommandTests.ManualTests compares the two.
commands: build python
	.build/release/martlet --experimental-dump-help > .build/commands.json
	python3 Packaging/manual.py article < .build/commands.json > $(COMMANDS)

## A Debian package and an OCI image, in .build/package.
# The program is linked once more, with the Swift runtime inside; nothing is compiled anew.
package: build python
	@command -v dpkg-shlibdeps >/dev/null || $(MAKE) --no-print-directory deps PACKAGES=dpkg-dev
	rm -rf .build/package
	python3 Packaging/build.py .build/release .build/package

## Installs, starts, sends, upgrades, removes and purges the package in a clean Debian system, as root.
package-test: package
	@command -v debootstrap >/dev/null || { \
	    echo "Installing the Debian package debootstrap"; \
	    $(SUDO) apt-get update -q \
	        && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -q \
	            --no-install-recommends debootstrap; \
	}
	$(SUDO) python3 Packaging/test_package.py .build/release .build/package
