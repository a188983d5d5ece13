#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Installs what Martlet is compared with, where it is missing: install-peers.sh PACKAGE…
# A package that cannot be had is no fault, the report names it. The services that packages bring must
# not start, since they would run beside what is measured: the policy below says so to Debian's scripts
# for the time of the installation, unless the machine has a policy already.

missing=""
for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] \
        || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=""
[ "$(id -u)" = 0 ] || sudo=sudo
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    trap '$sudo rm -f "$policy"' EXIT
    trap 'exit 1' INT TERM
    printf '#!/bin/sh\nexit 101\n' | $sudo tee "$policy" >/dev/null
    $sudo chmod 755 "$policy"
fi
$sudo apt-get update -q || true
for package in $missing; do
    echo "Installing the Debian package $package"
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$package" \
        || echo "$package cannot be had and is left out"
done
exit 0
