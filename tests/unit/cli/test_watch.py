"""What ``heterps watch`` shows where somebody looks at a terminal; what goes into a pipe is tested with the board."""

import io

from heterps.cli.watch import _live, _looks
from heterps.runtime.report.board import Board, Notice
from heterps.screen import Screen


def test_a_terminal_shows_the_board_anew_until_training_is_over() -> None:
    board, seen = Board(), []

    def look() -> dict[str, object]:
        seen.append(1)
        if len(seen) == 2:
            board.begin(Notice("1", "ctr", "client", 0.0))
        if len(seen) == 3:
            board.end("1", "done", "", 1.0)
        return {**board.state(1.0), "page": "http://127.0.0.1:8787/heterps"}

    console = Screen(file=io.StringIO(), force_terminal=True, width=80)
    _live(console, _looks(look, 0.0, once=False, forever=False))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert len(seen) == 3
    assert shown.index("no run yet") < shown.index("training") < shown.index("done")
    assert "page: http://127.0.0.1:8787/heterps" in shown
