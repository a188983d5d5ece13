# SPDX-License-Identifier: Apache-2.0
"""Makes a Debian package and an OCI image of a built program.

    build.py BUILD_FOLDER OUTPUT_FOLDER [--suffix TEXT]

BUILD_FOLDER is the folder with the objects of `swift build -c release --product martlet`. The objects are linked
once more, with the Swift runtime inside, so that nothing is compiled for the package. --suffix makes the version a
later one, for the test of upgrades. Needs dpkg, dpkg-dev and the standard library of Python; nothing runs as root.

Source: deb(5), Debian Policy, OCI image specification 1.0."""

import argparse
import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent
# The broker's user in a container. A number, because a container has no table of users but its own.
USER = 65532


def run(*command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, **options).stdout.decode()


def build_time():
    """The time of the last commit, so that one state of the sources makes one package."""
    try:
        return int(run("git", "-C", str(ROOT), "log", "-1", "--format=%ct"))
    except (OSError, subprocess.CalledProcessError):
        return int(os.path.getmtime(ROOT / "Package.swift"))


def link(build, program):
    """Links the program with the Swift runtime inside. Its symbols go into a file of their own beside it.

    SwiftPM gives the entry of each program a name of its own, so `main` is defined here. The two libraries belong to
    FoundationEssentials, which names them only where it is compiled for static linking. Without --no-export-dynamic
    every symbol would be kept. Equal functions are kept once, whether or not their addresses are taken, because nothing
    tells two functions of equal code apart by their addresses; relocations are packed, as libc 2.36 reads them: together
    2.3 MB less. The tables of stack frames are left out, because no code of the program throws exceptions
    over them: 7 MB less. A debugger walks a stack by frame pointers, which all functions keep, and needs the symbols
    for it."""
    done = subprocess.run([
        "swiftc", "-static-stdlib", "-emit-executable", "-o", str(program),
        f"@{build}/martlet.product/Objects.LinkFileList", "-l_FoundationCollections",
        "-l_FoundationCShims", "-Xlinker", "--defsym=main=martlet_main", "-Xlinker",
        "--gc-sections", "-Xlinker", "--build-id=sha1", "-use-ld=lld",
        "-Xclang-linker", "-Wl,--no-export-dynamic,--icf=all,-z,pack-relative-relocs",
        "-Xclang-linker", f"-Wl,--no-eh-frame-hdr,-T,{HERE / 'without-frame-tables.ld'}"],
        stderr=subprocess.PIPE)
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    symbols = program.with_suffix(".debug")
    run("objcopy", "--only-keep-debug", "--compress-debug-sections", str(program), str(symbols))
    run("strip", str(program))
    return symbols


def build_id(program):
    """The number that a debugger finds the file of the symbols by."""
    return re.search(r"Build ID: (\w+)", run("readelf", "-n", str(program))).group(1)


def libraries(program):
    """The shared libraries of the program, each with its path."""
    return dict(re.findall(r"(\S+) => (/\S+)", run("ldd", str(program))))


def package_of(path):
    """The Debian package of a library."""
    for form in (path, os.path.realpath(path), path.removeprefix("/usr"), "/usr" + path,
                 os.path.realpath(path).removeprefix("/usr")):
        try:
            owner = run("dpkg-query", "-S", form, stderr=subprocess.DEVNULL).split(": ")[0]
        except subprocess.CalledProcessError:
            continue
        return owner.split(":")[0].split(",")[0]
    raise SystemExit(f"{path} belongs to no Debian package")


def dependencies(program):
    """The packages of the program's libraries, each in the oldest version with all functions that the program calls."""
    with tempfile.TemporaryDirectory() as folder:
        # The command reads the name of a package from here.
        write(pathlib.Path(folder) / "debian/control",
              "Source: martlet\n\nPackage: martlet\nArchitecture: any\n")
        said = run("dpkg-shlibdeps", "-O", str(program.absolute()), cwd=folder,
                   stderr=subprocess.DEVNULL)
    # The command knows functions alone; packed relocations need this version too.
    return re.sub(r"libc6 \([^)]*\)", "libc6 (>= 2.36)",
                  said.strip().removeprefix("shlibs:Depends="))


def write(path, content, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)


def compressed(content, time):
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb", mtime=time, filename="") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return out.getvalue()


def tree(root, program, version, time):
    """The files of the package below a folder."""
    shutil.rmtree(root, ignore_errors=True)
    write(root / "usr/bin/martlet", program.read_bytes(), 0o755)
    write(root / "etc/martlet/martlet.conf", run(str(program), "settings", "data=/var/lib/martlet"))
    write(root / "usr/lib/systemd/system/martlet.service", (HERE / "martlet.service").read_bytes())
    day = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime("%B %d, %Y")
    manual = run(
        "python3", str(HERE / "manual.py"), "page", version, day,
        input=run(str(program), "--experimental-dump-help").encode())
    write(root / "usr/share/man/man1/martlet.1.gz", compressed(manual, time))
    for shell, path in (
            ("bash", "bash-completion/completions/martlet"),
            ("zsh", "zsh/vendor-completions/_martlet"),
            ("fish", "fish/vendor_completions.d/martlet.fish")):
        write(root / "usr/share" / path, run(str(program), "--generate-completion-script", shell))
    write(root / "usr/share/martlet/seccomp.json", (HERE / "seccomp.json").read_bytes())
    documents = root / "usr/share/doc/martlet"
    write(documents / "copyright", (
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
        "Upstream-Name: martlet\n\nFiles: *\nCopyright: the authors of Martlet\n"
        "License: Apache-2.0\n On Debian systems the text of this license is in"
        " /usr/share/common-licenses/Apache-2.0.\n"))
    write(documents / "changelog.gz", compressed((ROOT / "CHANGELOG.md").read_bytes(), time))


def debian_package(root, name, fields, version, output, time, compression):
    """A package of all files below a folder. `fields` are lines of its description to dpkg."""
    control = root / "DEBIAN"
    files = sorted(p for p in root.rglob("*") if p.is_file() and control not in p.parents)
    kilobytes = sum(-(-p.stat().st_size // 1024) for p in files)
    architecture = run("dpkg", "--print-architecture").strip()
    sums = "".join(
        f"{hashlib.md5(p.read_bytes()).hexdigest()}  {p.relative_to(root)}\n" for p in files)
    write(control / "md5sums", sums)
    write(control / "control", f"""Package: {name}
Version: {version}
Architecture: {architecture}
Maintainer: the authors of Martlet <martlet@localhost>
Installed-Size: {kilobytes}
Priority: optional
{fields}""")
    path = output / f"{name}_{version}_{architecture}.deb"
    run("dpkg-deb", "--root-owner-group", compression, "--build", str(root), str(path),
        env=dict(os.environ, SOURCE_DATE_EPOCH=str(time)))
    shutil.rmtree(control)
    return path


def program_package(root, program, version, output, time):
    write(root / "DEBIAN/conffiles", "/etc/martlet/martlet.conf\n")
    for script in sorted((HERE / "debian").iterdir()):
        write(root / "DEBIAN" / script.name, script.read_bytes(), 0o755)
    return debian_package(root, "martlet", f"""Section: net
Depends: {dependencies(program)}
Description: push-messaging broker
 Martlet delivers messages of app servers to devices: to one device, to a topic,
 or to a boolean condition over topics. Devices that are away get their messages
 on their next connection. Official SDKs send through its HTTP gateway.
""", version, output, time, "-Zxz")


def symbols_package(symbols, program, version, output, time):
    """The package for who reads a core file. Its files are compressed already."""
    root = output / "symbols"
    shutil.rmtree(root, ignore_errors=True)
    number = build_id(program)
    write(root / f"usr/lib/debug/.build-id/{number[:2]}/{number[2:]}.debug", symbols.read_bytes())
    path = debian_package(root, "martlet-dbgsym", f"""Section: debug
Depends: martlet (= {version})
Description: symbols of the push-messaging broker martlet
 A debugger needs them to show the functions in a core file.
""", version, output, time, "-Znone")
    shutil.rmtree(root)
    symbols.unlink()
    return path


class Layer:
    """The one layer of the image: the program, its libraries, and what a process expects around it."""

    def __init__(self, time):
        self.time = time
        self.bytes = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.bytes, mode="w", format=tarfile.PAX_FORMAT)
        self.folders = set()

    def add(self, name, content=None, mode=0o644, owner=0, link=None):
        parent = os.path.dirname(name)
        if parent and parent not in self.folders:
            self.add(parent, mode=0o755)
        info = tarfile.TarInfo(name)
        info.mtime, info.mode, info.uid, info.gid = self.time, mode, owner, owner
        if link:
            info.type, info.linkname = tarfile.SYMTYPE, link
            self.tar.addfile(info)
        elif content is None:
            self.folders.add(name)
            info.type = tarfile.DIRTYPE
            self.tar.addfile(info)
        else:
            info.size = len(content)
            self.tar.addfile(info, io.BytesIO(content))

    def finish(self):
        self.tar.close()
        return self.bytes.getvalue()


def image(root, program, version, output, time):
    layer = Layer(time)
    layer.add("tmp", mode=0o1777)
    layer.add("var/lib/martlet", mode=0o700, owner=USER)
    layer.add("etc/passwd", (
        f"root:x:0:0::/:/sbin/nologin\nmartlet:x:{USER}:{USER}::/var/lib/martlet:/sbin/nologin\n"
    ).encode())
    layer.add("etc/group", f"root:x:0:\nmartlet:x:{USER}:\n".encode())
    layer.add("etc/nsswitch.conf", b"hosts: files dns\n")
    for name in ("usr/bin/martlet", "etc/martlet/martlet.conf", "usr/share/martlet/seccomp.json",
                 "usr/share/doc/martlet/copyright"):
        file = root / name
        layer.add(name, file.read_bytes(), file.stat().st_mode & 0o777)
    shared = libraries(program)
    loader = re.search(r"(/lib\S*/ld-linux\S+)", run("ldd", str(program))).group(1)
    for path in sorted(set(shared.values()) | {loader}):
        layer.add(path.lstrip("/"), pathlib.Path(path).read_bytes(), 0o755)
        # The licence of a library goes with it.
        name = package_of(path)
        licence = pathlib.Path(f"/usr/share/doc/{name}/copyright")
        place = str(licence).lstrip("/")
        if licence.exists() and place not in layer.folders:
            layer.folders.add(place)
            layer.add(place, licence.read_bytes())
    content = layer.finish()
    packed = compressed(content, time)

    folder = output / "image"
    shutil.rmtree(folder, ignore_errors=True)

    def blob(data):
        digest = hashlib.sha256(data).hexdigest()
        write(folder / "blobs/sha256" / digest, data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    created = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%SZ")
    architecture = run("dpkg", "--print-architecture").strip()
    config = {
        "created": created, "architecture": architecture, "os": "linux",
        "config": {
            "User": f"{USER}:{USER}", "ExposedPorts": {"5228/tcp": {}, "8080/tcp": {}},
            "Env": ["PATH=/usr/bin", "MARTLET_DATA=/var/lib/martlet"],
            "Entrypoint": ["/usr/bin/martlet"],
            "Cmd": ["serve", "--config", "/etc/martlet/martlet.conf"],
            "Volumes": {"/var/lib/martlet": {}}, "WorkingDir": "/var/lib/martlet",
            "StopSignal": "SIGTERM",
            "Labels": {
                "org.opencontainers.image.title": "martlet",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0"}},
        "rootfs": {
            "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(content).hexdigest()]},
        "history": [{"created": created, "created_by": "Packaging/build.py"}]}
    kind = "application/vnd.oci.image."
    manifest = {
        "schemaVersion": 2, "mediaType": kind + "manifest.v1+json",
        "config": {"mediaType": kind + "config.v1+json", **blob(json.dumps(config).encode())},
        "layers": [{"mediaType": kind + "layer.v1.tar+gzip", **blob(packed)}]}
    index = {
        "schemaVersion": 2, "mediaType": kind + "index.v1+json",
        "manifests": [{
            "mediaType": kind + "manifest.v1+json", **blob(json.dumps(manifest).encode()),
            "platform": {"architecture": architecture, "os": "linux"},
            "annotations": {"org.opencontainers.image.ref.name": version}}]}
    write(folder / "index.json", json.dumps(index))
    write(folder / "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}))
    path = output / f"martlet_{version}_{architecture}.oci.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            info = tarfile.TarInfo(str(file.relative_to(folder)))
            info.size, info.mtime, info.mode = file.stat().st_size, time, 0o644
            with file.open("rb") as data:
                tar.addfile(info, data)
    shutil.rmtree(folder)
    return path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--suffix", default="")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    time = build_time()
    program = options.output / "martlet"
    symbols = link(options.build, program)
    # Without the commit, which is behind the version.
    version = run(str(program), "--version").split()[0] + options.suffix
    root = options.output / "root"
    tree(root, program, version, time)
    made = [program_package(root, program, version, options.output, time),
            symbols_package(symbols, program, version, options.output, time),
            image(root, program, version, options.output, time)]
    shutil.rmtree(root)
    for path in [program] + made:
        print(f"{path}  {path.stat().st_size / 1e6:.1f} MB")


main()
