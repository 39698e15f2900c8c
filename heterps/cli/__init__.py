"""The ``heterps`` command. One file per subcommand; each is imported only when it is used."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import click

from heterps.cli._ending import ending
from heterps.cli._short_helps import described

__all__ = ["main"]


class _Commands(click.Group):
    """Subcommands are the modules beside this file; module ``x`` has the click command ``command``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        command = importlib.import_module(f"{__name__}.{name}").command
        assert isinstance(command, click.Command)
        return _unwrapped(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        names = self.list_commands(ctx)
        limit = formatter.width - 6 - max(map(len, names))  # as click has it
        with formatter.section("Commands"):
            formatter.write_dl([(name, _described(name).get_short_help_str(limit)) for name in names])

    def invoke(self, ctx: click.Context) -> object:
        with ending():
            if ctx.params["parts"]:
                importlib.import_module(f"{__name__}._parts").import_parts(ctx.params["parts"])
            return super().invoke(ctx)


def _described(name: str) -> click.Command:
    source = pkgutil.get_data(__name__, f"{name}.py")
    assert source is not None, "a package has a loader for its files"
    return described(name, source.decode())


def _unwrapped(command: click.Command) -> click.Command:
    """Turn the backslash-b of raw docstrings into the character by which click keeps lines apart."""
    command.help = command.help and command.help.replace("\\b\n", "\b\n")
    return command


@click.group("heterps", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="heterps")
@click.option(
    "--parts",
    multiple=True,
    metavar="FILE",
    help="Python file, or module that is installed, to import first: with ops, rules, readers, devices of your own.",
)
def main(parts: tuple[str, ...]) -> None:
    r"""Plan and train sparse models on a Dask cluster of mixed machines.

    \b
    Examples:
      heterps graph wide_deep                      show ops, layers, reasons, bytes
      heterps plan wide_deep                       what to run where on this machine
      heterps train wide_deep --data train.tsv --out model/
      heterps --parts my_rules.py train wide_deep --data train.tsv --sparse Lion:lr=0.01
    """


_unwrapped(main)

if __name__ == "__main__":
    sys.exit(main())
