# SPDX-License-Identifier: Apache-2.0
"""The manual page of a program, from the description of its commands that the program itself prints:

    martlet --experimental-dump-help | python3 manual.py VERSION DATE > martlet.1

Source: mdoc(7)."""

import json
import sys


def escaped(text):
    """A text as the words of a line: no word begins as a request or is taken for a macro."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq")
    return "\n".join("\\&" + line.strip() for line in text.split("\n") if line.strip())


def paragraphs(text, out):
    """A text whose indented lines are examples, which keep their lines."""
    is_example = False
    for line in text.split("\n"):
        if line.strip() and line.startswith("    ") != is_example:
            out.append(".Ed" if is_example else ".Bd -literal -offset indent")
            is_example = not is_example
        if line.strip():
            out.append(escaped(line))
    if is_example:
        out.append(".Ed")


def names(argument):
    forms = []
    for name in argument.get("names", []):
        hyphens = "-" if name["kind"] == "short" else "--"
        forms.append(hyphens + name["name"])
    return forms


def arguments(command, out):
    shown = [a for a in command.get("arguments", []) if a.get("shouldDisplay", True)]
    shown = [a for a in shown if names(a) not in (["-h", "--help"], ["--version"])]
    if not shown:
        return
    # A flag and its opposite have one text, that of the flag.
    flags = {name for argument in shown for name in names(argument)}
    opposites = {name: f"--no-{name[2:]}" for name in flags if f"--no-{name[2:]}" in flags}
    shown = [a for a in shown if not set(names(a)) & set(opposites.values())]
    out.append(".Bl -tag -width Ds")
    for argument in shown:
        value = argument.get("valueName") or "value"
        if argument["kind"] == "positional":
            head = f"<{value}>"
        else:
            forms = names(argument) + [opposites[n] for n in names(argument) if n in opposites]
            head = ", ".join(forms) + (f" <{value}>" if argument["kind"] == "option" else "")
        out.append(f".It Li {escaped(head)[2:]}")
        words = " ".join(filter(None, [argument.get("abstract"), argument.get("discussion")]))
        if words:
            out.append(escaped(words))
        default = argument.get("defaultValue")
        if default and argument["kind"] == "option":
            out.append(escaped(f"Default: {default}."))
    out.append(".El")


def describe(command, path, out):
    name = " ".join(path + [command["commandName"]])
    out.append(f".Ss {escaped(name)[2:]}")
    for key in ("abstract", "discussion"):
        if command.get(key):
            paragraphs(command[key], out)
            out.append(".Pp")
    arguments(command, out)
    for sub in visible(command):
        describe(sub, path + [command["commandName"]], out)


def visible(command):
    return [c for c in command.get("subcommands", [])
            if c.get("shouldDisplay", True) and c["commandName"] != "help"]


def main():
    root = json.load(sys.stdin)["command"]
    version, date = sys.argv[1:3]
    out = [
        ".\\\" SPDX-License-Identifier: Apache-2.0", f".Dd {date}", ".Dt MARTLET 1",
        f".Os Martlet {version}", ".Sh NAME", ".Nm martlet",
        f".Nd {escaped(root['abstract'].rstrip('.'))[2:]}", ".Sh SYNOPSIS", ".Nm", ".Ar command",
        ".Op Ar options", ".Sh DESCRIPTION", ".Bd -literal", escaped(root["discussion"]), ".Ed",
        ".Sh COMMANDS"]
    for command in visible(root):
        describe(command, [], out)
    out += [
        ".Sh FILES", ".Bl -tag -width Ds", ".It Pa /etc/martlet/martlet.conf",
        "The settings of the service, with every setting and its default.",
        ".It Pa /var/lib/martlet", "The data folder of the service.", ".El"]
    print("\n".join(out))


main()
