"""Writes completions for bash, zsh and fish from the help of a program, as helptext.py reads it."""

import re

# Values that a shell completes with the names of folders, files, network interfaces and peers. Values of neither KINDS nor WORDS are not completed.
KINDS = {"DIR": "folder", "FILE": "file", "PATH": "file", "INTERFACE": "interface", "PEER": "peer"}
# Values of a fixed set of words. LEVELS has further forms, such as info,path=debug.
LEVELS = "error warn info debug trace"
AREAS = "daemon coordinator map path relay handshake session host portmap input"
WORDS = {"LEVEL": LEVELS, "LEVELS": LEVELS, "AREA": AREAS, "FORMAT": "text json"}
# Functions of the scripts, without the leading underscore of their names, and the commands that print the words.
LISTS = {"peer": ("taut_peers", "taut hosts --short 2>/dev/null | awk 'NR == 1 { own = $2 } $2 != own { print $2 }' | sort -u"), "interface": ("taut_interfaces", "ls /sys/class/net")}
HEAD = "# Completion of {name} for {shell}, made by tools/manuals.py from the program's help.\n"


def kind(value):
    """What completes a value: a word of KINDS, the words of WORDS, or None."""
    return KINDS.get(value) or WORDS.get(value)


def operands(usages):
    """What completes the words of a command that are no options: a word of KINDS, or None."""
    for usage in usages:
        plain = re.sub(r"\[-[^\]]*\]", "", usage)
        for word in re.findall(r"[A-Z]+", plain):
            if word in KINDS:
                return KINDS[word]
    return None


def choices(program):
    """All (command, verb or None, options, kind of operand)."""
    for command in program.commands:
        verbs = command.verbs()
        for verb, options in verbs.items():
            yield command.name, verb, options, None
        if not verbs:
            yield command.name, None, command.options(), operands(command.own_usages())


def names(options):
    return [name for option in options for name in option.names] + ["--help"]


def bash(program):
    function = "_" + program.name.replace("-", "_")
    valued = {}
    for _, _, options, _ in choices(program):
        for option in options:
            for name in option.names if option.value else ():
                valued.setdefault(kind(option.value), set()).add(name)
    sets = {words: f"COMPREPLY=($(compgen -W '{words}' -- \"$word\"))" for words in WORDS.values()}
    sets |= {of: f'COMPREPLY=($(compgen -W "$(_{name})" -- "$word"))' for of, (name, _) in LISTS.items()}
    sets |= {None: ":", "folder": 'COMPREPLY=($(compgen -d -- "$word"))', "file": 'COMPREPLY=($(compgen -f -- "$word"))'}
    lines = [HEAD.format(name=program.name, shell="bash"), *lists(program, "_{name}() {{ {command}; }}"), f"{function}() {{", '    local word=${COMP_WORDS[COMP_CWORD]} known']
    lines += ["    COMPREPLY=()", "    case ${COMP_WORDS[COMP_CWORD - 1]} in"]
    lines += [f"    {' | '.join(sorted(flags))}) {sets[of]}; return ;;" for of, flags in sorted(valued.items(), key=str)]
    lines += ["    esac", "    if ((COMP_CWORD == 1)); then"]
    commands = [command.name for command in program.commands]
    lines += [f"        COMPREPLY=($(compgen -W '{' '.join(commands)} --help --version' -- \"$word\"))", "        return", "    fi"]
    lines += ['    case "${COMP_WORDS[1]} ${COMP_WORDS[2]}" in']
    verbs = {}
    for command, verb, options, operand in choices(program):
        pattern = f'"{command} {verb}"' if verb else f'"{command} "*'
        lines.append(f"    {pattern}) known='{' '.join(names(options))}'{bash_operand(operand)} ;;")
        if verb:
            verbs.setdefault(command, []).append(verb)
    lines += [f'    "{command} "*) ((COMP_CWORD == 2)) && known=\'{" ".join(words)} --help\' ;;' for command, words in verbs.items()]
    lines += ["    esac"]
    lines += ['    COMPREPLY+=($(compgen -W "$known" -- "$word"))', "}", f"complete -F {function} {program.name}"]
    return "\n".join(lines) + "\n"


def bash_operand(operand):
    """What replaces the options, which are listed only after a hyphen."""
    if operand in LISTS:
        return f"; [[ $word == -* ]] || known=$(_{LISTS[operand][0]})"
    if operand in ("file", "folder"):
        return "; [[ $word == -* ]] || COMPREPLY=($(compgen -f -- \"$word\"))"
    return ""


def lists(program, text):
    """The functions that the completion of a program calls for words that only the running system knows."""
    used = {operand for _, _, _, operand in choices(program)}
    used |= {kind(option.value) for _, _, options, _ in choices(program) for option in options}
    return [text.format(name=name, command=command) for of, (name, command) in LISTS.items() if of in used]


def zsh(program):
    function = "_" + program.name.replace("-", "_")
    lines = [f"#compdef {program.name}", HEAD.format(name=program.name, shell="zsh"), *lists(program, '_{name}() {{ compadd "$@" - $({command}) }}'), f"{function}() {{", "    local -a commands verbs"]
    lines += ["    commands=("] + [f"        {quote(f'{command.name}:{command.summary}')}" for command in program.commands] + ["    )"]
    lines += ["    if ((CURRENT == 2)); then", "        _describe command commands", "        return", "    fi"]
    lines += ["    local command=$words[2]", "    shift words", "    ((CURRENT--))", "    case $command in"]
    for command in program.commands:
        verbs = command.verbs()
        lines.append(f"    {command.name})")
        if verbs:
            lines += [f"        verbs=({' '.join(verbs)})", "        if ((CURRENT == 2)); then", "            compadd -a verbs", "            return", "        fi"]
            lines += ["        local verb=$words[2]", "        shift words", "        ((CURRENT--))", "        case $verb in"]
            lines += [f"        {verb}) {zsh_arguments(program, options, None)} ;;" for verb, options in verbs.items()]
            lines += ["        esac ;;"]
        else:
            lines.append(f"        {zsh_arguments(program, command.options(), operands(command.own_usages()))} ;;")
    lines += ["    esac", "}", f'{function} "$@"']
    return "\n".join(lines) + "\n"


ZSH = {
    None: " ",
    "folder": "_files -/",
    "file": "_files",
    **{of: f"_{name}" for of, (name, _) in LISTS.items()},
    **{words: f"({words})" for words in WORDS.values()},
}


def zsh_arguments(program, options, operand):
    words = ["_arguments"]
    for option in options:
        text = re.sub(r"([\[\]:\\])", r"\\\1", program.text(option))
        for name in option.names:
            value = f":{option.value.replace(':', ' ')}:{ZSH[kind(option.value)]}" if option.value else ""
            words.append(quote(f"*{name}[{text}]{value}"))
    words.append(quote("--help[print the help of the command]"))
    if operand:
        words.append(quote(f"*:{operand}:{ZSH[operand]}"))
    return " ".join(words)


FISH = {
    "folder": "(__fish_complete_directories)",
    **{of: f"(__{name})" for of, (name, _) in LISTS.items()},
    **{words: words for words in WORDS.values()},
}


def fish(program):
    first = "test (count (commandline -opc)) -eq 1"
    lines = [HEAD.format(name=program.name, shell="fish"), *lists(program, "function __{name}; {command}; end"), f"complete -c {program.name} -f"]
    lines += [f"complete -c {program.name} -n {quote(first)} -a {command.name} -d {quote(command.summary)}" for command in program.commands]
    lines.append(f"complete -c {program.name} -l help -d 'print the help of the command'")
    for command, verb, options, operand in choices(program):
        here = f"test (count (commandline -opc)) -ge 2; and test (commandline -opc)[2] = {command}"
        if verb:
            lines.append(f"complete -c {program.name} -n {quote(here + '; and test (count (commandline -opc)) -eq 2')} -a {verb}")
            here = f"{here}; and contains -- {verb} (commandline -opc)[3]"
        lines += [f"complete -c {program.name} -n {quote(here)} {fish_option(program, option)}" for option in options]
        if operand:
            words = "-F" if operand == "file" else f"-a {quote(FISH[operand])}"
            lines.append(f"complete -c {program.name} -n {quote(here)} {words}")
    return "\n".join(lines) + "\n"


def fish_option(program, option):
    flags = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    if option.value:
        of = kind(option.value)
        flags.append({None: "-x", "file": "-r -F"}.get(of) or f"-x -a {quote(FISH[of])}")
    return f"{' '.join(flags)} -d {quote(program.text(option))}"


def quote(text):
    """The text as one word of zsh and fish. The typographic apostrophe has no meaning in a shell."""
    return "'" + text.replace("'", "’") + "'"
