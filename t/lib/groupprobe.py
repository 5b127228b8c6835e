"""groupprobe.py - a rank that uses backend="ddp" of torch.distributed. usage: groupprobe.py WHAT [ARGUMENT...]

collectives      every collective, of many types, shapes and groups: gloo's results, or those of a formula
wrong            what cannot be done: one line each
train BACKEND KIND...   trains a small model, KIND ddp or fsdp; rank 0 prints the losses, a line each
killed VICTIM    rank VICTIM kills itself in mid-training; the others print what the exception says
unanswered VICTIM FILE    rank 0 or 1 dies while the other two of three wait for a first message: from rank 1, or from
                 each other; the lower one without a collective in flight; what the exceptions say goes to FILE.RANK
forked           children that leave the group, just exit, or use it: none waits, and the ranks go on
leaves           rank 0 leaves as soon as its work is over, a hundred times: rank 1 gets what it has sent
deserts          rank 0 destroys a group with a work in flight, of which rank 1 is told
raises           rank 1 ends with an exception
crowded          rank 0 can start no thread for its first message, and then it can; nor one while a callback is run
again            the group of all ranks is opened six times, while models that were trained by an earlier one live on
stranger         rank 1 reads along in the store and tries whatever lies there as a token, on rank 0 while that listens:
                 in a step with a secret; then it alone has none; then no rank has
"""
import datetime
import itertools
import os
import resource
import signal
import socket
import struct
import sys

import torch
import torch.distributed as dist

import slurm_ddp.torch  # noqa: F401

OPS = dist.ReduceOp
FLOATS = torch.float32, torch.float64, torch.float16
TYPES = FLOATS + (torch.int32, torch.int64, torch.uint8, torch.int8)
IS_OLD = torch.__version__.startswith("1.")


def whole(shape, dtype, seed):
    """Small whole numbers, so that sums and products are exact in every type and order."""
    numbers = torch.Generator().manual_seed(seed)
    return torch.randint(0, 3, shape, generator=numbers).to(dtype)


def mine(shape, dtype, seed):
    return whole(shape, dtype, 1000 * seed + dist.get_rank())


class Both:
    """The same call on a group of gloo's and on one of ddp's."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.groups = [dist.new_group(ranks, backend=b) for b in ("gloo", "ddp")]
        self.rank, self.size = dist.get_rank(), len(ranks)
        self.n_compared = 0

    def same(self, what, make, call):
        """make() gives the call's tensors, of which every one is compared afterwards."""
        if self.rank not in self.ranks:
            return
        found = []
        for group in self.groups:
            tensors = make()
            call(group, *tensors)
            found.append([t for part in tensors for t in (part if isinstance(part, list) else [part])])
        for k, (a, b) in enumerate(zip(*found)):
            assert torch.equal(a, b), f"{what}, tensor {k}: gloo {a}, ddp {b}"
        self.n_compared += 1

    def reductions(self, shape, dtype, seed):
        for op in (OPS.SUM, OPS.MIN, OPS.MAX, OPS.PRODUCT):
            self.same(f"all_reduce {op} {dtype} {shape}", lambda: [mine(shape, dtype, seed)],
                      lambda g, x: dist.all_reduce(x, op=op, group=g))
        shape = shape or (2,)  # gloo crashes where the output has no dimension
        self.same(f"reduce_scatter {dtype} {shape}",
                  lambda: [torch.zeros(shape, dtype=dtype), mine((self.size, *shape), dtype, seed)],
                  lambda g, out, x: part_of_sum(g, out, x, self.size))
        if dtype in (torch.int32, torch.int64, torch.uint8):
            for op in (OPS.BAND, OPS.BOR, OPS.BXOR):
                self.same(f"all_reduce {op} {dtype}", lambda: [mine(shape, dtype, seed)],
                          lambda g, x: dist.all_reduce(x, op=op, group=g))

    def moves(self, shape, dtype, seed):
        root = self.ranks[seed % self.size]
        self.same(f"broadcast {dtype} {shape}", lambda: [mine(shape, dtype, seed)],
                  lambda g, x: dist.broadcast(x, root, group=g))
        self.same(f"all_gather {dtype} {shape}",
                  lambda: [[torch.zeros(shape, dtype=dtype) for _ in self.ranks], mine(shape, dtype, seed)],
                  lambda g, out, x: dist.all_gather(out, x, group=g))
        self.same(f"gather {dtype} {shape}",
                  lambda: [[torch.zeros(shape, dtype=dtype) for _ in self.ranks], mine(shape, dtype, seed)],
                  lambda g, out, x: dist.gather(x, out if self.rank == root else None, root, group=g))
        self.same(f"scatter {dtype} {shape}",
                  lambda: [torch.zeros(shape, dtype=dtype), [mine(shape, dtype, seed + k) for k in range(self.size)]],
                  lambda g, out, x: dist.scatter(out, x if self.rank == root else None, root, group=g))
        self.same(f"all_to_all_single {dtype} {shape}",
                  lambda: [torch.zeros((self.size, *shape), dtype=dtype), mine((self.size, *shape), dtype, seed)],
                  lambda g, out, x: dist.all_to_all_single(out, x, group=g))

    def odd(self):
        """Not in a row; reduce; parts of unequal sizes; several at once; objects."""
        self.same("all_reduce of a transposed tensor", lambda: [mine((7, 5), torch.float32, 1)],
                  lambda g, x: dist.all_reduce(x, group=g) if g is self.groups[1] else reduce_copy(x.t(), g))
        self.same("reduce", lambda: [mine((9,), torch.float32, 2)], lambda g, x: reduce_to(x, self.ranks[-1], g))
        rows = [[(a + 2 * b) % 3 for b in range(self.size)] for a in range(self.size)]  # a sends to b
        me = self.ranks.index(self.rank) if self.rank in self.ranks else 0
        theirs = [row[me] for row in rows]
        self.same("all_to_all_single of unequal parts",
                  lambda: [torch.zeros(sum(theirs), 3), mine((sum(rows[me]), 3), torch.float32, 3)],
                  lambda g, out, x: dist.all_to_all_single(out, x, theirs, rows[me], group=g))
        self.same("all_to_all_single of nothing", lambda: [torch.zeros(0, 3), torch.zeros(0, 3)],
                  lambda g, out, x: dist.all_to_all_single(out, x, group=g))
        self.same("works in flight", lambda: [[mine((100 * k + 1,), torch.float32, k) for k in range(6)]], in_flight)
        self.same("barrier", lambda: [], lambda g: dist.barrier(group=g))
        if self.rank in self.ranks:
            found = [None] * self.size
            dist.all_gather_object(found, {"rank": self.rank}, group=self.groups[1])
            assert [f["rank"] for f in found] == self.ranks
            text = ["x" * 1001, 7] if self.rank == self.ranks[0] else [None, None]
            dist.broadcast_object_list(text, self.ranks[0], group=self.groups[1])
            assert text == ["x" * 1001, 7]


def part_of_sum(group, out, x, size):
    """gloo of PyTorch 1.13 has no reduce-scatter."""
    if IS_OLD and "Gloo" in type(group).__name__:
        dist.all_reduce(x.clone(), group=group)
        both = x.clone()
        dist.all_reduce(both, group=group)
        out.copy_(both[dist.get_rank(group)])
    elif IS_OLD:
        dist.all_reduce(x.clone(), group=group)
        group._reduce_scatter_base(out, x.flatten(0, 1)).wait()
    else:
        dist.all_reduce(x.clone(), group=group)
        dist.reduce_scatter_tensor(out, x.flatten(0, 1), group=group)


def reduce_copy(x, group):
    copy = x.contiguous()
    dist.all_reduce(copy, group=group)
    x.copy_(copy)


def reduce_to(x, root, group):
    """What the others have afterwards is not said."""
    dist.reduce(x, root, group=group)
    if dist.get_rank() != root:
        x.zero_()


def in_flight(group, tensors):
    works = [dist.all_reduce(t, group=group, async_op=True) for t in tensors]
    for work in reversed(works):
        work.wait()
        assert work.is_completed()


def own_types(group, rank, size):
    """What gloo has not: against a formula."""
    total = size * (size - 1) / 2
    for dtype in FLOATS + (torch.bfloat16,):
        x = torch.full((33,), float(rank), dtype=dtype)
        dist.all_reduce(x, group=group)
        assert torch.equal(x, torch.full((33,), total, dtype=dtype)), f"sum {dtype}: {x}"
        if not IS_OLD:
            x = torch.full((33,), float(rank), dtype=dtype)
            dist.all_reduce(x, op=OPS.AVG, group=group)
            assert torch.equal(x, torch.full((33,), total, dtype=dtype) / size), f"mean {dtype}: {x}"
    seen = torch.tensor([rank == 0, False, True])
    dist.all_reduce(seen, op=OPS.MAX, group=group)
    assert seen.tolist() == [True, False, True]
    z = torch.full((3,), complex(rank, 1))
    dist.all_reduce(z, group=group)
    assert torch.equal(z, torch.full((3,), complex(total, size)))


def messages(group, rank, size):
    """In a circle, with two tags in either order, of an odd number of bytes."""
    after, before = (rank + 1) % size, (rank - 1) % size
    got = [torch.zeros(5, dtype=torch.uint8), torch.zeros(40000)]
    works = [dist.irecv(got[1], before, group=group, tag=2), dist.irecv(got[0], before, group=group, tag=1),
             dist.isend(torch.full((5,), rank, dtype=torch.uint8), after, group=group, tag=1),
             dist.isend(torch.full((40000,), rank + 0.5), after, group=group, tag=2)]
    for work in works:
        work.wait()
    assert got[0].tolist() == [before] * 5 and got[1].unique().tolist() == [before + 0.5]


def only_read(group, rank, size):
    """Elements that share memory, on ranks that write nothing there."""
    x = torch.ones(1).expand(9) if rank else torch.ones(9)
    dist.reduce(x, 0, group=group)
    assert x.unique().tolist() == [1 if rank else size], f"reduce: {x}"
    x = torch.zeros(9) if rank else torch.full((1,), 5.).expand(9)
    dist.broadcast(x, 0, group=group)
    assert x.unique().tolist() == [5], f"broadcast: {x}"
    if rank == 0:
        dist.send(torch.full((3, 1), 7, dtype=torch.uint8).expand(3, 3), 1, group=group)
    elif rank == 1:
        x = torch.zeros(3, 3, dtype=torch.uint8)
        dist.recv(x, 0, group=group)
        assert x.unique().tolist() == [7], f"send: {x}"


def in_place(group, rank, size):
    x = torch.arange(size) + 10. * rank
    dist.all_to_all_single(x, x, group=group)
    assert x.tolist() == [10 * r + rank for r in range(size)], f"all_to_all in place: {x}"
    x = torch.full((3,), float(rank))
    parts = [x] + [torch.zeros(3) for _ in range(size - 1)] if rank == 0 else None
    dist.gather(x, parts, 0, group=group)
    assert x.tolist() == [rank] * 3 and (rank > 0 or [p[2] for p in parts] == list(range(size))), f"gather: {parts}"
    x = torch.arange((1 << 20) + 5) * (rank + 1)  # more than is reduced at once
    dist.reduce(x, 0, group=group)
    times = size * (size + 1) // 2 if rank == 0 else rank + 1
    assert torch.equal(x, torch.arange((1 << 20) + 5) * times), f"reduce: {x}"


def turned(group, rank, size):
    """The output's elements lie in another order on rank 0 than on the others."""
    x = torch.arange(24. * size).view(size, 4, 6)
    for op, times in [(OPS.SUM, size * (size + 1) / 2)] + ([] if IS_OLD else [(OPS.AVG, (size + 1) / 2)]):
        out = torch.zeros(4, 6) if rank else torch.zeros(6, 4).t()
        dist.reduce_scatter(out, list(x * (rank + 1)), op=op, group=group)
        assert torch.equal(out, x[rank] * times), f"reduce_scatter {op}: {out}"


def asynchronous(group, size):
    """Works that nobody waits for but by their futures: the lane's own thread carries them out."""
    with torch.inference_mode():
        x = torch.ones(3, dtype=torch.int8)
        dist.all_reduce(x, group=group, async_op=True).get_future().wait()
    assert x.tolist() == [size] * 3
    x, y, z = torch.ones(3), torch.ones(3), torch.ones(3)

    def after_x(_):
        dist.all_reduce(y, group=group, async_op=True).get_future().then(after_y).wait()

    def after_y(_):
        dist.all_reduce(z, group=group, async_op=True).get_future().wait()
    dist.all_reduce(x, group=group, async_op=True).get_future().then(after_x).wait()
    assert all(t.tolist() == [size] * 3 for t in (x, y, z))


def collectives():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [Both(list(range(size)))] + ([Both([0, size - 1])] if size > 2 else [])
    shapes = [(), (1,), (5,), (3, 7), (130001,)]
    for both in groups:
        types = TYPES if both is groups[0] else TYPES[:1]
        for seed, (dtype, shape) in enumerate(itertools.product(types, shapes)):
            both.reductions(shape, dtype, seed)
            both.moves(shape, dtype, seed)
    for both in groups:
        both.odd()
    own_types(groups[0].groups[1], rank, size)
    turned(groups[0].groups[1], rank, size)
    in_place(groups[0].groups[1], rank, size)
    asynchronous(groups[0].groups[1], size)
    if size > 1:
        messages(groups[0].groups[1], rank, size)
        only_read(groups[0].groups[1], rank, size)
    n = groups[0].n_compared
    dist.destroy_process_group()
    print(f"{n} compared", flush=True)


def say(line):
    """In one piece, where print writes the line's end by itself."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def wrong():
    dist.init_process_group("ddp")
    rank, size = dist.get_rank(), dist.get_world_size()
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cpu")) if hasattr(group, "_get_backend") else group # 1.13: is one
    options = dist.GatherOptions()
    options.rootRank = size
    calls = {
        "sparse": lambda: dist.all_reduce(torch.eye(2).to_sparse()),
        "shared": lambda: dist.all_reduce(torch.ones(1).expand(4)),
        "parts": lambda: dist.all_to_all_single(torch.zeros(1).expand(size), torch.zeros(size)),
        "shape": lambda: dist.all_gather([torch.zeros(3)] * size, torch.zeros(2)),
        "source": lambda: dist.recv(torch.zeros(1)),
        "meta": lambda: backend.allreduce([torch.zeros(1, device="meta")]).wait(),
        "lists": lambda: group.allgather_into_tensor_coalesced([], [torch.zeros(1)]),  # not in 1.13
        "complex": lambda: dist.all_reduce(torch.zeros(2, dtype=torch.complex64), op=OPS.MAX),
        "root": lambda: backend.gather([], [torch.zeros(1)], options).wait(),
    }
    for name, call in calls.items():
        try:
            call()
            say(f"{name}: done")
        except (RuntimeError, ValueError, AttributeError) as e:
            say(f"{name}: {e}" if "backend ddp" in str(e) else f"{name}: refused by PyTorch itself")
    try:  # one rank has too little room, of which all are told
        dist.all_to_all_single(torch.zeros(size - (rank == 1)), torch.zeros(size), [int(rank != 1)] + [1] * (size - 1))
    except ValueError as e:
        say(f"room: {e}")
    odd = torch.zeros(3 + rank % 2, dtype=torch.uint8)  # one byte fewer than on the other ranks
    for name, call in (("broadcast", lambda g: dist.broadcast(odd, 0, group=g)),
                       ("all_gather", lambda g: dist.all_gather([odd.clone() for _ in range(size)], odd, group=g))):
        try:
            call(dist.new_group())
            say(f"{name}: done")
        except RuntimeError as e:
            say(f"{name}: told" if "with another size" in str(e) else f"{name}: {e}")
    x = torch.full((2,), float(rank))
    dist.all_reduce(x)  # none of these has broken the group
    assert x.tolist() == [size * (size - 1) / 2] * 2
    dist.destroy_process_group()
    try:
        dist.all_reduce(x)
    except (RuntimeError, ValueError):
        say("destroyed")


def unanswered(victim, path):
    """Into files: of a step that ends like this srun may lose the last words."""
    dist.init_process_group("ddp")
    rank, victim = dist.get_rank(), int(victim)
    if rank == victim:
        dist.barrier()
        os.kill(os.getpid(), signal.SIGKILL)
    message = dist.irecv(torch.zeros(1), victim or 3 - rank)
    dist.barrier()
    waits = [message.wait, lambda: dist.all_reduce(torch.zeros(1))]
    with open(f"{path}.{rank}", "w", encoding="utf-8") as file:
        for wait in waits if rank < 2 else reversed(waits):
            try:
                wait()
            except RuntimeError as e:
                print(f"{type(e).__name__}: {e}", file=file)
    os._exit(9)


def try_to_use():
    for call in (lambda: dist.all_reduce(torch.zeros(1)), lambda: dist.isend(torch.zeros(1), 1 - dist.get_rank())):
        try:
            call()
            os._exit(8)
        except ValueError as e:
            assert "a child that a rank has forked" in str(e), e


def forked():
    dist.init_process_group("ddp")
    dist.all_reduce(torch.zeros(1))
    for leave in dist.destroy_process_group, lambda: None, try_to_use:
        child = os.fork()
        if not child:
            signal.alarm(60)
            leave()
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, "a child hangs, or was killed"
        dist.all_reduce(torch.zeros(1))
    dist.destroy_process_group()
    say("left")


def leaves():
    dist.init_process_group("gloo")
    n_come = 0
    for _ in range(100):
        group, x = dist.new_group(backend="ddp"), torch.full((4,), 1. - dist.get_rank())
        if dist.get_rank() == 0:
            for thread in map(int, os.listdir("/proc/self/task")):  # the others have the processor when this one waits
                os.sched_setaffinity(thread, {min(os.sched_getaffinity(0))})
                os.sched_setscheduler(thread, os.SCHED_OTHER if thread == os.getpid() else os.SCHED_IDLE,
                                      os.sched_param(0))
            dist.broadcast(x, 0, group=group, async_op=True).wait(datetime.timedelta(seconds=60))
            dist.destroy_process_group(group)
            group = None
        dist.barrier()
        if group:
            dist.broadcast(x, 0, group=group)
            dist.destroy_process_group(group)
        n_come += x.tolist() == [1] * 4
    say(f"{n_come} came")
    dist.destroy_process_group()


def deserts():
    dist.init_process_group("gloo")
    group, x = dist.new_group(backend="ddp"), torch.ones(1 << 22)  # more than is sent before it is asked for
    dist.all_reduce(x, group=group)
    dist.barrier()  # both have that one
    if dist.get_rank() == 0:
        dist.all_reduce(x, group=group, async_op=True)
        dist.destroy_process_group(group)
        group = None
    dist.barrier()
    if dist.get_rank() == 1:
        try:
            dist.all_reduce(x, group=group)
        except RuntimeError as e:
            say(str(e))
    dist.destroy_process_group()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(7)
        self.layers = torch.nn.ModuleList([torch.nn.Linear(32, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 8)])

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = torch.relu(layer(x))
        return self.layers[-1](x)


def wrapped(kind):
    model = Net()
    if kind == "ddp":
        return torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.01)
    from torch.distributed.fsdp import fully_shard
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def steps(model, n):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    numbers = torch.Generator().manual_seed(dist.get_rank())
    for step in range(n):
        x = torch.randn(16, 32, generator=numbers)
        loss = (model(x) - x[:, :8] * 2).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        yield step, mean.item() / dist.get_world_size()


def train(backend, *kinds):
    dist.init_process_group(backend)
    for kind in kinds:
        losses = [f"{loss:.6f}" for _, loss in steps(wrapped(kind), 12)]
        if dist.get_rank() == 0:
            print(kind, *losses, flush=True)
    dist.destroy_process_group()


def killed(victim):
    dist.init_process_group("ddp")
    try:
        for step, _ in steps(wrapped("ddp"), 1000):
            if step == 5 and dist.get_rank() == int(victim):
                os.kill(os.getpid(), signal.SIGKILL)
    except RuntimeError as e:
        print(f"{type(e).__name__}: {e}", flush=True)
        os._exit(9)


def raises():
    dist.init_process_group("ddp")
    for step, _ in steps(wrapped("ddp"), 1000):
        if step == 5 and dist.get_rank() == 1:
            raise ValueError("no such sample")


def without_threads(call):
    """call(), whose first line is said where it raises, while this process can start no thread."""
    few, many = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (1, many))
    try:
        call()
    except RuntimeError as e:
        say(str(e).splitlines()[0])
    resource.setrlimit(resource.RLIMIT_NPROC, (few, many))


def crowded():
    dist.init_process_group("ddp")
    store = dist.distributed_c10d._get_default_store()
    x = torch.ones(1)

    def sum_twice():
        """By the lane's own thread, since nobody waits for the first work: once rank 0 has asked for the callback."""
        if dist.get_rank() == 1:
            store.wait(["asked"])
        future = dist.all_reduce(x, async_op=True).get_future().then(lambda _: dist.all_reduce(x))
        store.set("asked", "1")
        future.wait()

    if dist.get_rank() == 0:
        without_threads(lambda: dist.send(x, 1))
        dist.send(x * 2, 1)
        without_threads(sum_twice)
    else:
        dist.recv(x, 0)
        say(f"got {x.item()}")
        try:
            sum_twice()
        except RuntimeError as e:
            say(str(e).splitlines()[0])


def again():
    models = []
    for _ in range(6):
        if os.environ["RANK"] == "0":
            sum(map(float, map(str, range(3000000))))  # others look into the store before it
        dist.init_process_group("ddp", timeout=datetime.timedelta(seconds=60))
        models.append(wrapped("ddp"))
        list(steps(models[-1], 1))
        dist.barrier()
        dist.destroy_process_group()
    say(f"{len(models)} groups")


class Stranger(dist.Store):
    """The store; what it reads of rank 0's card is tried there."""

    def __init__(self, store):
        super().__init__()
        self.store = store
        self.n_tried, self.is_in = 0, False

    def set(self, key, value):
        self.store.set(key, value)

    def add(self, key, n):
        return self.store.add(key, n)

    def check(self, _):
        """That it is there; get waits for it. PyTorch 1.13's stores have no check for Python."""
        return True

    def get(self, key):
        value = self.store.get(key)
        if key.endswith("/0/comm") and os.environ["RANK"] == "1":
            self.try_all(value)
        return value

    def try_all(self, card):
        host, port = struct.unpack_from("<64sH", card, 20)  # behind a seal and a version: runtime/comm/wireup.c
        to = host.split(b"\0")[0].decode(), port
        for i in range(len(card) - 15):
            self.n_tried += 1
            self.is_in = self.is_in or is_let_in(to, card[i:i + 16])


def is_let_in(to, token):
    """By either of the connections, data and control, that rank 0 expects: runtime/comm/handshake.c."""
    connections = [socket.create_connection(to, 60) for _ in range(2)]
    for kind, connection in enumerate(connections, 2):
        connection.sendall(struct.pack("<QIIII16s", 0x31504d4f43504444, 1, 0, kind, 0, token))
    answers = []
    for connection in connections:
        with connection:
            try:
                answers.append(connection.recv(1))
            except ConnectionResetError:
                answers.append(b"")
    return any(answers)


def stranger():
    rank, minute = int(os.environ["RANK"]), datetime.timedelta(seconds=60)
    server = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), 2, rank == 0, minute)
    for what, without in (("secret", ()), ("rank 1 without", (1,)), ("none", (0, 1))):
        if rank in without:
            os.environ.pop("SLURM_DDP_SECRET", None)
        store, x = Stranger(dist.PrefixStore(what, server)), torch.full((2,), float(rank + 1))
        try:
            group = slurm_ddp.torch._create(store, rank, 2, minute)
            group.allreduce([x]).wait()
            say(f"{what}: the sum is {x[0].item()}")
        except RuntimeError as e:
            if what != "none":  # there the stranger has taken rank 1's place
                say(f"{what}: {str(e).splitlines()[0]}")
        if store.n_tried:
            say(f"{what}: {'let in' if store.is_in else 'not let in'}")
    if rank == 0:
        server.wait(["over"])  # it is in this process
    else:
        server.set("over", "1")


torch.set_num_threads(1)
{"collectives": collectives, "wrong": wrong, "train": train, "killed": killed, "raises": raises,
 "unanswered": unanswered, "forked": forked, "leaves": leaves, "deserts": deserts,
 "again": again, "crowded": crowded, "stranger": stranger}[sys.argv[1]](*sys.argv[2:])
