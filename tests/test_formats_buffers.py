"""Tables of buffers: round trips and malformed ones."""

import pytest
from hypothesis import given

from remat_algos.allocate.allocation import Buffers
from remat_algos.allocate.arenas import SplitAllocation, pack_arenas
from remat_algos.allocate.offsets import pack
from remat_algos.allocate.sharing import share_storage
from remat_algos.errors import AllocationError, GraphWarning
from remat_algos.formats.buffer_tables import read_buffers, write_allocation
from tests.test_allocate_arenas import TWO
from tests.test_allocate_buffers import some_buffers
from tests.test_allocate_offsets import buffers_of, fixed


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("buffers")


@given(buffers=some_buffers(in_place=False))
def test_what_is_written_is_read(folder, buffers):
    found = share_storage(buffers)
    write_allocation(found, folder / "b.csv")
    again = read_buffers(folder / "b.csv")
    for field in ("begin", "end", "size"):
        assert getattr(again, field).tolist() == getattr(buffers, field).tolist()
    assert again.names == tuple(map(str, range(len(buffers))))
    assert again.offset.tolist() == found.offset.tolist()
    rows = (folder / "b.csv").read_text().splitlines()
    assert rows[0] == "id,lower,upper,size,offset"
    assert [int(row.split(",")[4]) for row in rows[1:]] == found.offset.tolist()


def test_names_with_commas_come_back(tmp_path):
    buffers = Buffers([0, 1], [2, 3], [4, 4], names=("grad(a,b)@0", 'the "x"'))
    write_allocation(share_storage(buffers), tmp_path / "b.csv")
    assert read_buffers(tmp_path / "b.csv").names == buffers.names


@given(case=fixed())
def test_what_was_packed_is_read_as_the_same_allocation(folder, case):
    rows, offsets = case
    found = pack(buffers_of(rows, offset=offsets))
    write_allocation(found, folder / "p.csv")
    again = pack(read_buffers(folder / "p.csv"))
    again.verify()
    assert again.offset.tolist() == found.offset.tolist()
    assert all(at in (-1, lies) for at, lies in zip(offsets, again.offset.tolist(), strict=True))


@given(buffers=some_buffers())
def test_what_is_written_over_another_is_a_row_that_follows_it(folder, buffers):
    found = pack(buffers)
    write_allocation(found, folder / "o.csv")
    again = pack(read_buffers(folder / "o.csv"))
    again.verify()
    assert (again.offset.tolist(), again.buffers.max_live) == (found.offset.tolist(), buffers.max_live)


def test_arenas_are_written_and_read(tmp_path):
    found = pack_arenas(buffers_of(TWO), [98304, 65536])
    assert isinstance(found, SplitAllocation)
    write_allocation(found, tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text().splitlines()[:3] == [
        *("id,lower,upper,size,arena,offset", "0,0,2,98304,0,0", "1,1,3,45056,1,0")
    ]
    again = read_buffers(tmp_path / "b.csv")
    assert (again.arena.tolist(), again.offset.tolist()) == (found.arena.tolist(), found.offset.tolist())
    pack_arenas(again, [98304, 65536]).verify()


def test_columns_stand_in_any_order(tmp_path):
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbfsize,offset, upper,lower,id\r\n64,128,2,0,x\r\n\r\n")
    buffers = read_buffers(tmp_path / "b.csv")
    assert (buffers.begin[0], buffers.end[0], buffers.size[0], buffers.names) == (0, 2, 64, ("x",))
    assert buffers.offset.tolist() == [128]


@pytest.mark.parametrize("free", ["", " ", "-1"])
def test_an_empty_cell_fixes_nothing(tmp_path, free):
    (tmp_path / "b.csv").write_text(f"id,lower,upper,size,offset,arena\nx,0,2,4,{free},{free}\ny,0,2,4,0,1\n")
    buffers = read_buffers(tmp_path / "b.csv")
    assert (buffers.offset.tolist(), buffers.arena.tolist()) == ([-1, 0], [-1, 1])


@pytest.mark.parametrize("column", ["hint", "comment", "pool"])
def test_columns_without_a_meaning_are_named_in_a_notice(tmp_path, column):
    (tmp_path / "b.csv").write_text(f"id,lower,upper,size,{column}\nx,0,2,64,8\n")
    with pytest.warns(GraphWarning, match=f"b.csv: ignored columns {column}"):
        read_buffers(tmp_path / "b.csv")


def test_alignments_and_gaps_that_ask_for_nothing_are_read(tmp_path):
    (tmp_path / "b.csv").write_text("id,lower,upper,size,alignment,gaps\nx,0,2,64,1,\ny,0,2,64,,\n")
    assert len(read_buffers(tmp_path / "b.csv")) == 2


def test_the_largest_number_is_below_a_power_of_two(tmp_path):
    (tmp_path / "b.csv").write_text(f"id,lower,upper,size\nx,{'0' * 20},{2**53 - 1},{2**53 - 1}\n")
    assert read_buffers(tmp_path / "b.csv").max_live == 2**53 - 1


def test_a_table_may_have_no_rows(tmp_path):
    (tmp_path / "b.csv").write_text("id,lower,upper,size\n")
    assert len(read_buffers(tmp_path / "b.csv")) == 0


HEAD = "id,lower,upper,size\n"
FIXED = "id,lower,upper,size,offset,arena\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "b.csv: the file is empty; its first line must name the columns"),
        ("id,lower,size\nx,0,1\n", "b.csv, line 1: missing column `upper` (found: id, lower, size)"),
        ("id lower upper size\n", "b.csv, line 1: separate the columns by commas, semicolons or tabs"),
        ("id,lower,uper,size\n", "b.csv, line 1: column `uper` is not known; did you mean `upper`?"),
        ("id,id,lower,upper,size\n", "b.csv, line 1: column `id` occurs twice; keep one"),
        (HEAD + "x,0,1\n", "b.csv, line 2: expected 4 cells, found 3; is the file whole?"),
        (HEAD + "x,0,1,8\ny,0,one,8\n", "b.csv, line 3: upper of buffer 'y' is 'one'; write a whole number"),
        (HEAD + "x,0,1,1.5\n", "b.csv, line 2: size of buffer 'x' is '1.5'; write a whole number"),
        (HEAD + "x,0,1,\n", "b.csv, line 2: buffer 'x' has no size; write a whole number"),
        (HEAD + "x,0,1,-8\n", "b.csv, line 2: size of buffer 'x' is '-8'; write a whole number, 0 or more"),
        (HEAD + "x,-1,1,8\n", "b.csv, line 2: lower of buffer 'x' is '-1'; write a whole number, 0 or more"),
        (HEAD + "x,0,1," + "9" * 30 + "\n", "b.csv, line 2: size of buffer 'x' is '" + "9" * 30 + "'; write one below"),
        (HEAD + f"x,0,{2**53},1\n", f"b.csv, line 2: upper of buffer 'x' is '{2**53}'; write one below 2**53"),
        (HEAD + "x,3,1,8\n", "b.csv, line 2: buffer 'x', 3 to 1, ends before it begins; upper must be above lower"),
        (HEAD + "x,3,3,8\n", "b.csv, line 2: buffer 'x', 3 to 3, ends with its first step; upper must be above lower"),
        (HEAD + ",0,1,8\n", "b.csv, line 2: the buffer has no id; give it one"),
        (HEAD + "x,0,1,8\n\nx,0,1,8\n", "b.csv, line 4: id 'x' is already on line 2; rename one of them"),
        (HEAD + 'x,0,1,"8\n', "b.csv, line 2: not a CSV line"),
        (HEAD + f"x,0,1,{2**52}\ny,0,1,{2**52}\n", "b.csv: the sizes add up to 2**53 or more; give them in a coarser"),
        (FIXED + "x,0,1,8,low,\n", "b.csv, line 2: offset of buffer 'x' is 'low'; write a whole number, 0 or more"),
        (FIXED + "x,0,1,8,-8,\n", "b.csv, line 2: offset of buffer 'x' is '-8'; write a whole number, 0 or more"),
        (FIXED + "x,0,1,8,0.5,\n", "b.csv, line 2: offset of buffer 'x' is '0.5'; write a whole number, 0 or more"),
        (FIXED + "x,0,1,8,,SRAM\n", "b.csv, line 2: arena of buffer 'x' is 'SRAM'; write a whole number, 0 or more"),
        (
            FIXED + f"x,0,1,8,{2**53 - 1},\n",
            "b.csv: buffer x (steps 0 to 1) has an offset at which it ends beyond 2**53",
        ),
        (
            FIXED + "x,0,2,8,0,\ny,1,2,8,4,0\n",
            "b.csv: buffers x and y overlap: both are needed at step 1, and by their",
        ),
        ("id,lower,upper,size,alignment\nx,0,1,8,64\n", "b.csv, line 2: alignment of buffer 'x' is '64'"),
        ("id,lower,upper,size,gaps\nx,0,9,8,3-5\n", "b.csv, line 2: gaps of buffer 'x' is '3-5'"),
    ],
)
def test_a_malformed_table_is_refused_with_its_line(tmp_path, text, message):
    (tmp_path / "b.csv").write_text(text)
    with pytest.raises(AllocationError) as error:
        read_buffers(tmp_path / "b.csv")
    assert str(error.value).startswith(message)
    assert "\n" not in str(error.value)


def test_what_is_no_text_is_refused(tmp_path):
    (tmp_path / "b.csv").write_bytes(b"id,lower\xff")
    with pytest.raises(AllocationError, match=r"b\.csv: byte 8 is not UTF-8 text; save the file as UTF-8"):
        read_buffers(tmp_path / "b.csv")
    with pytest.raises(AllocationError, match="is a directory; name a file in it"):
        read_buffers(tmp_path)
    with pytest.raises(AllocationError, match=r"no such file: .*none\.csv"):
        read_buffers(tmp_path / "none.csv")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    found = share_storage(Buffers([0], [1], [8]))
    (tmp_path / "b.csv").write_text("as it was")
    with pytest.raises(OSError, match="no such folder; create it first"):
        write_allocation(found, tmp_path / "nowhere" / "b.csv")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_allocation(found, tmp_path / "folder")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["b.csv", "folder"]
    assert (tmp_path / "b.csv").read_text() == "as it was"


def test_the_instances_that_lie_beside_the_repository(shared_graphs):
    file = shared_graphs.parent / "allocation" / "A.1048576.csv"
    if not file.exists():
        pytest.skip("the folder shared/allocation does not lie beside the repository")
    buffers = read_buffers(file)
    assert (len(buffers), buffers.names[0]) == (len(file.read_text().split()) - 1, "0")
    assert buffers.max_live <= 1048576
