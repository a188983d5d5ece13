# SPDX-License-Identifier: Apache-2.0
"""The manual page and the article Commands, from the description of its commands that the program itself prints:

    martlet --experimental-dump-help | python3 manual.py page VERSION DATE > martlet.1
    martlet --experimental-dump-help | python3 manual.py article > Commands.md

The page is mdoc(7), and the article Markdown for DocC; `make commands` writes the article."""

import json
import sys
import textwrap

# Characters in a line of the article.
WIDTH = 120
# What holds for many commands, before the first.
PREAMBLE = """# Commands

Every command of `martlet`, with all its options.

## Overview

This page is made of the program's own help by `make commands`, and a test compares the two. `martlet help COMMAND` prints
the same in a terminal, and `man martlet` on a machine with the Debian package.

Commands on messages, devices, topics and groups have two ways to a broker. **As administrator of the data folder**: through the
broker that serves the folder, or on the folder itself while none does. The folder is `--data` (`--data-folder` where `--data`
is data of a message), else the variable `MARTLET_DATA`, else `./martlet-data`. **As a sender over the network**: with `--key`
or `MARTLET_KEY`, `--host` and `--port`; over TLS with `--tls` or `--ca`, and with `--client-certificate` if the broker wants
a certificate (<doc:Security>). `--json` prints results as JSON.

The settings of `serve` and `gateway` are explained in <doc:Configuration>.
"""


def names(argument):
    return ["-" * (1 if name["kind"] == "short" else 2) + name["name"]
            for name in argument.get("names", [])]


def options(command):
    """The head of each argument, such as `--topic <topic>`, and its texts: what it does, and its default."""
    shown = [a for a in command.get("arguments", []) if a.get("shouldDisplay", True)]
    shown = [a for a in shown if names(a) not in (["-h", "--help"], ["--version"])]
    # A flag and its opposite have one text, that of the flag.
    flags = {name for argument in shown for name in names(argument)}
    opposites = {name: f"--no-{name[2:]}" for name in flags if f"--no-{name[2:]}" in flags}
    out = []
    for argument in shown:
        forms = names(argument) + [opposites[n] for n in names(argument) if n in opposites]
        if set(names(argument)) & set(opposites.values()):
            continue
        value = f"<{argument.get('valueName') or 'value'}>"
        head = value if argument["kind"] == "positional" else ", ".join(forms)
        if argument["kind"] == "option":
            head += " " + value
        texts = [argument[key] for key in ("abstract", "discussion") if argument.get(key)]
        default = argument.get("defaultValue")
        if default and argument["kind"] == "option":
            texts.append(f"Default: {default}.")
        out.append((head, texts))
    return out


def blocks(text):
    """Runs of lines; those of an example are indented and keep their lines."""
    out = []
    for line in text.split("\n"):
        is_example = line.startswith("  ")
        if not line.strip():
            out.append((None, []))
        elif out and out[-1][0] == is_example:
            out[-1][1].append(line)
        else:
            out.append((is_example, [line]))
    return [(is_example, lines) for is_example, lines in out if lines]


def visible(command):
    return [c for c in command.get("subcommands", [])
            if c.get("shouldDisplay", True) and c["commandName"] != "help"]


def commands(command, path=()):
    """Every command below one, with its whole name."""
    for sub in visible(command):
        words = (*path, sub["commandName"])
        yield " ".join(words), sub
        yield from commands(sub, words)


# The page.


def escaped(text):
    """A text as the words of a line: no word begins as a request or is taken for a macro."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq")
    return "\n".join("\\&" + line.strip() for line in text.split("\n") if line.strip())


def page(root, version, date):
    out = [
        ".\\\" SPDX-License-Identifier: Apache-2.0", f".Dd {date}", ".Dt MARTLET 1",
        f".Os Martlet {version}", ".Sh NAME", ".Nm martlet",
        f".Nd {escaped(root['abstract'].rstrip('.'))[2:]}", ".Sh SYNOPSIS", ".Nm", ".Ar command",
        ".Op Ar options", ".Sh DESCRIPTION", ".Bd -literal", escaped(root["discussion"]), ".Ed",
        ".Sh COMMANDS"]
    for name, command in commands(root):
        out.append(f".Ss {escaped(name)[2:]}")
        for key in ("abstract", "discussion"):
            for is_example, lines in blocks(command.get(key) or ""):
                shown = [escaped(line) for line in lines]
                out += [".Bd -literal -offset indent", *shown, ".Ed"] if is_example else shown
            if command.get(key):
                out.append(".Pp")
        found = options(command)
        if found:
            out.append(".Bl -tag -width Ds")
            for head, texts in found:
                out.append(f".It Li {escaped(head)[2:]}")
                out += [escaped(text) for text in texts]
            out.append(".El")
    out += [
        ".Sh FILES", ".Bl -tag -width Ds", ".It Pa /etc/martlet/martlet.conf",
        "The settings of the service, with every setting and its default.",
        ".It Pa /var/lib/martlet", "The data folder of the service.", ".El"]
    return "\n".join(out)


# The article.


def marked(text):
    """A text in which Markdown sees no marks of its own; what stands in backticks stays."""
    parts = text.split("`")
    for index in range(0, len(parts), 2):
        for mark in "\\*_<[":
            parts[index] = parts[index].replace(mark, "\\" + mark)
        # A hyphen that comes to stand first in a line would begin a list.
        parts[index] = parts[index].replace(" - ", " \\- ")
    return "`".join(parts)


def wrapped(text, indent=""):
    return textwrap.wrap(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def prose(text, out):
    for is_example, lines in blocks(text):
        if is_example:
            indent = min(len(line) - len(line.lstrip()) for line in lines)
            out += ["```", *(line[indent:].rstrip() for line in lines), "```", ""]
        else:
            out += [*wrapped(marked(" ".join(line.strip() for line in lines))), ""]


def article(root):
    out = [PREAMBLE]
    prose(root["discussion"], out)
    told = {}
    for name, command in commands(root):
        out += [f"{'#' * (2 + name.count(' '))} {name}", ""]
        for key in ("abstract", "discussion"):
            prose(command.get(key) or "", out)
        found = options(command)
        first = told.setdefault(repr(found), name)
        if found and first != name:
            out += [f"The options of `{first}`.", ""]
        elif found:
            for head, texts in found:
                text = ": " + marked(" ".join(texts)) if texts else ""
                out += wrapped(f"- `{head}`{text}", "  ")
            out.append("")
    return "\n".join(out).rstrip()


def main():
    root = json.load(sys.stdin)["command"]
    form, *rest = sys.argv[1:]
    print({"page": page, "article": article}[form](root, *rest))


main()
