"""All commands with their options, for the site: what each means is told once, where the parser is made."""

import argparse
from importlib import import_module

from bbflow_pegasus.cli import BBFLOW_PEGASUS

from bbflow.cli import BBFLOW

PROGRAMS = (BBFLOW, BBFLOW_PEGASUS)


def options():
    """Return a section for each command."""
    return "\n".join(part for program in PROGRAMS for part in _program(program))


def _program(program):
    yield f"## {program.name}\n"
    for name, summary in program.commands.items():
        module = import_module(f"{program.package}.{name}")
        parser = argparse.ArgumentParser(prog=f"{program.name} {name}")
        module.add_arguments(parser)
        yield f"### {program.name} {name}\n\n{_sentence(summary)}\n"
        yield from _options(parser)


def _options(parser):
    nested = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    told = [action for action in parser._actions if action not in nested and _is_told(action)]
    if told:
        yield "| | |\n| --- | --- |"
        yield from (f"| {_words(action)} | {_meaning(action, parser)} |" for action in told)
        yield ""
    for action in nested:
        helps = {choice.dest: choice.help for choice in action._choices_actions}
        for name, inner in action.choices.items():
            yield f"#### {inner.prog}\n\n{_sentence(helps.get(name) or inner.description or '')}\n"
            yield from _options(inner)


def _is_told(action):
    return not isinstance(action, argparse._HelpAction) and action.help is not argparse.SUPPRESS


def _words(action):
    value = "" if action.nargs == 0 else f" {_value(action)}"
    words = [option + value for option in action.option_strings] or [_value(action)]
    return ", ".join(f"`{word}`" for word in words).replace("|", "\\|")


def _value(action):
    if action.metavar is not None:
        return " ".join(action.metavar) if isinstance(action.metavar, tuple) else action.metavar
    if action.choices is not None:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def _meaning(action, parser):
    meaning = (action.help or "") % {
        "default": action.default,
        "prog": parser.prog,
        "type": getattr(action.type, "__name__", ""),
    }
    return " ".join(meaning.replace("|", "\\|").split())


def _sentence(text):
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""
