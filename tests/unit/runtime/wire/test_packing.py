"""What a worker with rows of its own asks with a pull, and is told with the rows, comes through a socket as it was."""

import numpy as np

from heterps.protocol.words.keys import BatchKey
from heterps.protocol.words.messages import Granted, Pull
from heterps.runtime.batch.payload import Pulled, Refreshed, Wanted, bytes_in
from heterps.runtime.wire.message import Message
from heterps.runtime.wire.packing import pack_reply, pack_request, unpack_reply, unpack_request
from heterps.tables import FollowedRows, Moment

IDS, MOMENT = np.arange(3, dtype=np.uint64), Moment("here", {"user": 4})
PULL = Pull(1, 2, BatchKey(0, 1, 5), 1, 9)


def test_a_pull_says_since_when_it_wants_to_hear() -> None:
    packed = pack_request(PULL, Wanted({"user": IDS}, reader="1/a", since=MOMENT))
    request, wanted = unpack_request(Message(packed.head, packed.arrays))
    assert request == PULL
    assert isinstance(wanted, Wanted)
    assert (wanted.reader, wanted.since) == ("1/a", MOMENT)


def test_news_come_with_the_rows_and_outlive_the_buffer_that_they_came_in() -> None:
    changed = FollowedRows(IDS, np.ones((3, 2), np.float32), IDS[:1])
    news = Refreshed({"user": changed}, 7, MOMENT, True)
    rows = np.full((3, 2), 5, np.float32)
    packed = pack_reply(Granted(1), Pulled({"user": rows}, {}, 7, np.arange(2, dtype=np.float32), news=news))
    came = [array.copy() for array in packed.arrays]
    reply, found = unpack_reply(Message(packed.head, came), Wanted({"user": IDS}))
    for array in came:
        array[...] = 0
    assert reply == Granted(1)
    assert isinstance(found, Pulled)
    assert found.news is not None
    assert (found.news.version, found.news.moment, found.news.known) == (7, MOMENT, True)
    assert [each.tolist() for each in found.news.rows["user"]] == [[0, 1, 2], [[1, 1]] * 3, [0]]
    assert found.values["user"].tolist() == [[5, 5]] * 3
    assert found.dense is not None
    assert found.dense.tolist() == [0, 1]
    assert bytes_in(found) == rows.nbytes + 8 + sum(array.nbytes for array in changed)


def test_rows_without_news_are_as_they_were() -> None:
    packed = pack_reply(Granted(1), Pulled({"user": np.ones((3, 2), np.float32)}, {}, 7))
    _, found = unpack_reply(Message(packed.head, packed.arrays), Wanted({"user": IDS}))
    assert isinstance(found, Pulled)
    assert found.news is None
