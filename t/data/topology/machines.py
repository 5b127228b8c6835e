"""The machines of this folder, described once: README in the folder above says where each description comes from."""
from hardware import *


def epyc_cores(first, n, smt):
    """n cores; the second thread of core i is CPU i + smt (0: one thread)."""
    return [core(c, c, *([c + smt] if smt else [])) for c in range(first, first + n)]


def ccx(first, n, kib, smt, size):
    """n cores in L3 groups of `size`."""
    return [cache(3, kib, *epyc_cores(c, size, smt)) for c in range(first, first + n, size)]


# ---- HGX H100, 2 x EPYC of 64 cores, NPS4 ----

def hgx_h100():
    model = 'AMD EPYC 9554 64-Core Processor'
    root = [0x00, 0x20, 0x40, 0x60, 0x80, 0xa0, 0xc0, 0xe0]    # bus of the quadrant's root complex

    def quadrant(q):
        r = root[q]
        # one switch: a GPU and its NIC
        io = [host(bridge('0000:%02x:01.1' % r,
                          switch('0000:%02x:00.0' % (r + 1),
                                 bridge('0000:%02x:00.0' % (r + 2), gpu('0000:%02x:00.0' % (r + 3), '10de:2330'),
                                        ids='1000:c030'),
                                 bridge('0000:%02x:01.0' % (r + 2),
                                        infiniband('0000:%02x:00.0' % (r + 4), 'mlx5_%d' % q, 'ib%d' % q),
                                        ids='1000:c030'),
                                 ),
                          ids='1022:14ab'))]
        if q == 0:    # storage: two ports of InfiniBand, one of them without a cable
            io.append(host(bridge('0000:10:03.1', infiniband('0000:11:00.0', 'mlx5_8', 'ib8', ids='15b3:101b'),
                                  infiniband('0000:11:00.1', 'mlx5_9', 'ib9', up=False, ids='15b3:101b'),
                                  ids='1022:14ab')))
        if q == 2:    # management: BMC and Ethernet
            io.append(host(bridge('0000:50:05.1', bridge('0000:51:00.0', other('0000:52:00.0', '1a03:2000', '0300'),
                                                         ids='1a03:1150'), ids='1022:14ab'),
                           bridge('0000:50:05.2', ethernet('0000:53:00.0', 'eno1', '14e4:16d8'),
                                  ethernet('0000:53:00.1', 'eno2', '14e4:16d8'), ids='1022:14ab')))
        return group(*ccx(16 * q, 16, 32768, 128, 8), memory=[node(q, 192)], io=io)

    return Machine('hgx-h100', package(0, model, *[quadrant(q) for q in range(4)]),
                   package(1, model, *[quadrant(q) for q in range(4, 8)]), infos={'HostName': 'hgx-h100'})


# ---- DGX A100: GPUs on four of eight NUMA nodes ----

def dgx_a100():
    model = 'AMD EPYC 7742 64-Core Processor'

    def board(root, up, gpus, nics):
        """A switch with two GPUs and two NICs: each GPU shares a lower switch with a NIC."""
        kids = []
        for i, (g, n) in enumerate(zip(gpus, nics)):
            low = up + 2 + 8 * i
            kids.append(bridge('0000:%02x:%02x.0' % (up + 1, 8 * i),
                               switch('0000:%02x:00.0' % low,
                                      bridge('0000:%02x:00.0' % (low + 1), gpu('0000:%s:00.0' % g, '10de:20b0'),
                                             ids='1000:c010'),
                                      bridge('0000:%02x:10.0' % (low + 1), infiniband('0000:%s:00.0' % n[0], n[1], n[2],
                                                                                     ids='15b3:101b'),
                                             ids='1000:c010'),
                                      ids='1000:c010'), ids='1000:c010'))
        return host(bridge('0000:%02x:01.1' % root, switch('0000:%02x:00.0' % up, *kids, ids='1000:c010'),
                           ids='1022:1483'))

    io = {3: [board(0x00, 0x01, ['07', '0f'], [('0c', 'mlx5_2', 'ib2'), ('12', 'mlx5_3', 'ib3')])],
          1: [board(0x40, 0x41, ['47', '4e'], [('4b', 'mlx5_0', 'ib0'), ('54', 'mlx5_1', 'ib1')])],
          7: [board(0x80, 0x81, ['87', '90'], [('8d', 'mlx5_8', 'ib6'), ('94', 'mlx5_9', 'ib7')])],
          5: [board(0xb0, 0xb1, ['b7', 'bd'], [('ba', 'mlx5_6', 'ib4'), ('cc', 'mlx5_7', 'ib5')])],
          0: [host(bridge('0000:60:03.1', roce('0000:61:00.0', 'mlx5_4', 'enp97s0f0'),
                          roce('0000:61:00.1', 'mlx5_5', 'enp97s0f1', up=False), ids='1022:1483'))],
          4: [host(bridge('0000:e0:03.1', roce('0000:e1:00.0', 'mlx5_10', 'enp225s0f0'),
                          roce('0000:e1:00.1', 'mlx5_11', 'enp225s0f1', up=False), ids='1022:1483'),
                   bridge('0000:e0:05.2', ethernet('0000:e2:00.0', 'enp226s0'), ids='1022:1483'))]}

    def quadrant(q):
        return group(*ccx(16 * q, 16, 16384, 128, 4), memory=[node(q, 128)], io=io.get(q, []))

    return Machine('dgx-a100', package(0, model, *[quadrant(q) for q in range(4)]),
                   package(1, model, *[quadrant(q) for q in range(4, 8)]), infos={'HostName': 'dgx-a100'})


# ---- DGX-2: 16 GPUs through six NVSwitches ----

def dgx_2():
    model = 'Intel(R) Xeon(R) Platinum 8168 CPU @ 2.70GHz'

    def board(n, root, trios):
        """A root complex with two switches below one, each with two GPUs and a NIC."""
        kids = []
        for i, (a, b, nic) in enumerate(trios):
            g = 4 * n + 2 * i
            low = root + 4 + 5 * i
            kids.append(bridge('0000:%02x:%02x.0' % (root + 2, 4 + 8 * i),
                               switch('0000:%02x:00.0' % low,
                                      bridge('0000:%02x:00.0' % (low + 1), gpu('0000:%s:00.0' % a, '10de:1db8',
                                             os=[nvml(g)]), ids='10b5:9781'),
                                      bridge('0000:%02x:08.0' % (low + 1), infiniband('0000:%s:00.0' % nic, 'mlx5_%d'
                                             % (2 * n + i), 'ib%d' % (2 * n + i), ids='15b3:1019'), ids='10b5:9781'),
                                      bridge('0000:%02x:10.0' % (low + 1), gpu('0000:%s:00.0' % b, '10de:1db8',
                                             os=[nvml(g + 1)]), ids='10b5:9781'),
                                      ids='10b5:9781'), ids='10b5:9781'))
        return host(bridge('0000:%02x:00.0' % root, switch('0000:%02x:00.0' % (root + 1), *kids, ids='10b5:9781')))

    def nvml(i):
        return Os('nvml%d' % i, Os.GPU, Backend='NVML', GPUVendor='NVIDIA Corporation', GPUModel='Tesla V100-SXM3-32GB')

    switches = ['0000:%02x:00.0' % b for b in (0x6a, 0x6b, 0x6c, 0x6d, 0x6e, 0x6f)]

    def socket(s, boards, rest):
        cores = [core(c, c + 24 * s, c + 24 * s + 48) for c in range(24)]
        return package(s, model, cache(3, 33792, *cores), memory=[node(s, 754)], io=boards + rest)

    a = [board(0, 0x2e, [('34', '36', '35'), ('39', '3b', '3a')]), board(1, 0x51, [('57', '59', '58'), ('5c', '5e', '5d')])]
    b = [board(2, 0xb1, [('b7', 'b9', 'b8'), ('bc', 'be', 'bd')]), board(3, 0xda, [('e0', 'e2', 'e1'), ('e5', 'e7', 'e6')])]
    bridges = host(bridge('0000:67:00.0', bridge('0000:68:00.0', *[bridge(
        '0000:69:%02x.0' % i, other(s, '10de:1ac2', '0680', 'NVSwitch'), ids='10b5:9797')
        for i, s in enumerate(switches)], ids='10b5:9797')))
    vga = host(bridge('0000:00:1c.0', bridge('0000:01:00.0', other('0000:02:00.0', '1a03:2000', '0300'), ids='1a03:1150')))
    eth = host(bridge('0000:85:00.0', ethernet('0000:86:00.0', 'enp134s0f0', '15b3:1017'),
                      ethernet('0000:86:00.1', 'enp134s0f1', '15b3:1017')))
    return Machine('dgx-2', socket(0, [vga] + a, [bridges]), socket(1, [eth] + b, []), through=switches,
                   infos={'HostName': 'dgx-2'})


MACHINES = [hgx_h100(), dgx_a100(), dgx_2()]
