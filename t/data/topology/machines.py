"""The machines of this folder, described once: README in the folder above says where each description comes from."""
from hardware import *


def cores_smt(first, n, smt):
    """n cores; the second thread of core i is CPU i + smt (0: one thread)."""
    return [core(c, c, *([c + smt] if smt else [])) for c in range(first, first + n)]


def ccx(first, n, kib, smt, size):
    """n cores in L3 groups of `size`."""
    return [cache(3, kib, *cores_smt(c, size, smt)) for c in range(first, first + n, size)]


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


# ---- HGX H100, 2 x Xeon of 48 cores, each as two NUMA nodes (SNC2): three GPUs on one, one on the other ----

def hgx_snc():
    model = 'Intel(R) Xeon(R) Platinum 8468'
    slots = {0: (0x15, [0, 1, 2]), 1: (0x55, [3]), 2: (0x95, [4, 5, 6]), 3: (0xd5, [7])}    # NUMA node: first bus, GPUs

    def slot(bus, g, nic):
        return host(bridge('0000:%02x:01.0' % bus, switch('0000:%02x:00.0' % (bus + 1),
                           bridge('0000:%02x:00.0' % (bus + 2), gpu('0000:%02x:00.0' % (bus + 3), '10de:2330'),
                                  ids='1000:c030'),
                           bridge('0000:%02x:10.0' % (bus + 2), infiniband(
                               '0000:%02x:00.0' % (bus + 4), 'mlx5_%d' % nic, 'ib%d' % nic), ids='1000:c030'))))

    def numa(n):
        first, gpus = slots[n]
        io = [slot(first + 10 * i, g, g if g < 3 else g + 1) for i, g in enumerate(gpus)]
        if n == 1:    # storage
            io.insert(0, host(bridge('0000:4a:01.0', roce('0000:4b:00.0', 'mlx5_3', 'ens4np0'))))
        return group(*cores_smt(24 * n, 24, 96), memory=[node(n, 256)], io=io)

    return Machine('hgx-snc', *[package(s, model, cache(3, 107520, numa(2 * s), numa(2 * s + 1))) for s in (0, 1)],
                   infos={'HostName': 'hgx-snc'})


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

    a = [board(0, 0x2e, [('34', '36', '35'), ('39', '3b', '3a')]),
         board(1, 0x51, [('57', '59', '58'), ('5c', '5e', '5d')])]
    b = [board(2, 0xb1, [('b7', 'b9', 'b8'), ('bc', 'be', 'bd')]),
         board(3, 0xda, [('e0', 'e2', 'e1'), ('e5', 'e7', 'e6')])]
    bridges = host(bridge('0000:67:00.0', bridge('0000:68:00.0', *[bridge(
        '0000:69:%02x.0' % i, other(s, '10de:1ac2', '0680', 'NVSwitch'), ids='10b5:9797')
        for i, s in enumerate(switches)], ids='10b5:9797')))
    vga = host(bridge('0000:00:1c.0', bridge('0000:01:00.0', other('0000:02:00.0', '1a03:2000', '0300'),
                                             ids='1a03:1150')))
    eth = host(bridge('0000:85:00.0', ethernet('0000:86:00.0', 'enp134s0f0', '15b3:1017'),
                      ethernet('0000:86:00.1', 'enp134s0f1', '15b3:1017')))
    return Machine('dgx-2', socket(0, [vga] + a, [bridges]), socket(1, [eth] + b, []), through=switches,
                   infos={'HostName': 'dgx-2'})


# ---- 4 x GH200: memory of the GPUs as NUMA nodes ----

def gh200_x4():
    def superchip(s):
        g = '%04x:01:00.0' % (0x0009 + 0x10 * s)
        n = '%04x:01:00.0' % (0x0002 + 0x10 * s)
        cores = [core(72 * s + c, 72 * s + c) for c in range(72)]
        io = [host(bridge(n[:4] + ':00:00.0', slingshot(n, 'hsn%d' % s), ids='10de:22b1')),
              host(bridge(g[:4] + ':00:00.0', gpu(g, '10de:2342', os=[
                  Os('nvml%d' % s, Os.GPU, Backend='NVML', GPUVendor='NVIDIA Corporation',
                     GPUModel='NVIDIA GH200 120GB')]), ids='10de:22b2'))]
        if s == 0:
            io.append(host(bridge('0006:00:00.0', ethernet('0006:01:00.0', 'eno1', '8086:1533'), ids='10de:22b8')))
        return package(s, 'Neoverse-V2', cache(3, 116736, *cores),
                       memory=[node(s, 120), node(4 + 8 * s, 96, 'GPUMemory', False, PCIBusID=g)], io=io)

    return Machine('gh200-x4', *[superchip(s) for s in range(4)], infos={'HostName': 'gh200-x4'},
                   links={(i, j): 150000 for i in range(4) for j in range(i + 1, 4)})


# ---- 2 x GH200, as an hwloc tells it that knows nothing of GPUs: their memory is like any other, no NVLink ----

def gh200_nvl2():
    def superchip(s):
        g = '%04x:01:00.0' % (0x0009 + 0x10 * s)
        n = '%04x:01:00.0' % (0x0000 + 0x10 * s)
        cores = [core(72 * s + c, 72 * s + c) for c in range(72)]
        io = [host(bridge(n[:4] + ':00:00.0', infiniband(n, 'mlx5_%d' % s, 'ib%d' % s), ids='10de:22b1')),
              host(bridge(g[:4] + ':00:00.0', gpu(g, '10de:2348'), ids='10de:22b2'))]
        return package(s, 'Neoverse-V2', cache(3, 116736, *cores),
                       memory=[node(s, 480), node(2 + 8 * s, 144, has_cpus=False)], io=io)

    return Machine('gh200-nvl2', superchip(0), superchip(1), infos={'HostName': 'gh200-nvl2'})


# ---- 8 MI300X: processing accelerators, no displays; a NUMA node to a package, no SMT ----

def mi300x():
    roots = [0x00, 0x18, 0x48, 0x60, 0x80, 0x98, 0xc0, 0xe0]
    first = [0x05, 0x2b, 0x5b, 0x65, 0x85, 0xab, 0xdb, 0xe5]    # the GPU's bus; its NIC is on the next

    def slot(g):
        r, b = roots[g], first[g]
        return host(bridge('0000:%02x:01.1' % r, switch('0000:%02x:00.0' % (r + 1),
                           bridge('0000:%02x:00.0' % (r + 2), gpu('0000:%02x:00.0' % b, '1002:74a1', '1200', [
                               Os('rsmi%d' % g, Os.GPU, Backend='RSMI', GPUVendor='AMD',
                                  GPUModel='AMD Instinct MI300X')]), ids='1000:c030'),
                           bridge('0000:%02x:01.0' % (r + 2), roce('0000:%02x:00.0' % (b + 1), 'bnxt_re%d' % g,
                                                                   'ens%df0np0' % (g + 1), up=g != 6, ids='14e4:1760'),
                                  ids='1000:c030'), ids='1000:c030'), ids='1022:14ab'))

    def socket(s):
        io = [slot(g) for g in range(4 * s, 4 * s + 4)]
        if s == 0:
            io.append(host(bridge('0000:28:03.1', ethernet('0000:29:00.0', 'eno1', '14e4:1750'), ids='1022:14ab')))
        return package(s, 'AMD EPYC 9534 64-Core Processor', *ccx(64 * s, 64, 32768, 0, 8),
                       memory=[node(s, 1152)], io=io)

    return Machine('mi300x', socket(0), socket(1), infos={'HostName': 'mi300x'}, link_name='XGMIBandwidth',
                   links={(i, j): 64000 for i in range(8) for j in range(i + 1, 8)})


# ---- a cloud machine that does tell: four NICs with verbs only under the switch of each GPU ----

def p5():
    def slot(g):
        r = 0x4f + 0x11 * (g % 4) if g < 4 else 0x93 + 0x11 * (g % 4)
        nics = [bridge('0000:%02x:%02x.0' % (r - 2, i), efa('0000:%02x:00.0' % (r + i), 'rdmap%ds0' % (r + i)),
                       ids='1d0f:0200') for i in range(4)]
        card = bridge('0000:%02x:04.0' % (r - 2), gpu('0000:%02x:00.0' % (r + 4), '10de:2330'), ids='1d0f:0200')
        return host(bridge('0000:%02x:00.0' % (r - 4), switch('0000:%02x:00.0' % (r - 3), *nics, card, ids='1d0f:0200'),
                           ids='1d0f:0200'))

    def socket(s):
        io = [slot(g) for g in range(4 * s, 4 * s + 4)]
        if s == 0:
            io.insert(0, host(ethernet('0000:00:06.0', 'ens6', '1d0f:ec20')))
        return package(s, 'AMD EPYC 7R13 Processor', *ccx(48 * s, 48, 32768, 96, 8), memory=[node(s, 1024)], io=io)

    return Machine('p5', socket(0), socket(1), infos={'HostName': 'p5'})


# ---- Frontier, LUMI-G: 4 MI250X, each two GPUs, crossed against the NUMA order ----

def mi250x():
    modules = {0: ('d0', 4), 1: ('c8', 2), 2: ('d8', 6), 3: ('c0', 0)}    # NUMA node: root bus, its first GPU

    def quadrant(q):
        root, g = modules[q]
        r = int(root, 16)
        io = [host(*[bridge('0000:%02x:%02x.1' % (r, 1 + i), dev, ids='1022:14ab') for i, dev in enumerate([
            die(r + 1, g), slingshot('0000:%02x:00.0' % (r + 5), 'hsn%d' % (g // 2)), die(r + 6, g + 1)])])]
        if q == 0:
            io.append(host(bridge('0000:00:01.1', ethernet('0000:01:00.0', 'enp1s0', '8086:1533'), ids='1022:14ab')))
        return group(*ccx(16 * q, 16, 32768, 64, 8), memory=[node(q, 128)], io=io)

    def die(bus, g):
        return gpu('0000:%02x:00.0' % bus, '1002:7408', '0380', [
            Os('rsmi%d' % g, Os.GPU, Backend='RSMI', GPUVendor='AMD', GPUModel='AMD Instinct MI250X')])

    return Machine('mi250x', package(0, 'AMD EPYC 7A53 64-Core Processor', *[quadrant(q) for q in range(4)]),
                   infos={'HostName': 'mi250x'}, link_name='XGMIBandwidth',
                   links={(g, g + 1): 200000 for g in (0, 2, 4, 6)})


# ---- POWER9: SMT4, pairs of cores share caches, each device in a PCI domain ----

def power9():
    def socket(s, domains, io):
        pairs = [cache(3, 10240, *[core(8 * s * 256 + 4 * c, *range(88 * s + 4 * c, 88 * s + 4 * c + 4))
                                   for c in (2 * p, 2 * p + 1)]) for p in range(11)]
        return package(8 * s, 'POWER9, altivec supported', *pairs, memory=[node(8 * s, 128)], io=io)

    def v100(bus, i):
        return gpu(bus, '10de:1db1', os=[Os('nvml%d' % i, Os.GPU, Backend='NVML', GPUVendor='NVIDIA Corporation',
                                            GPUModel='Tesla V100-SXM2-16GB')])

    def pair(domain, first, i):
        return host(bridge('%s:00:00.0' % domain, switch('%s:01:00.0' % domain,
                           bridge('%s:02:0a.0' % domain, v100('%s:%02x:00.0' % (domain, first), i), ids='10b5:8725'),
                           bridge('%s:02:0b.0' % domain, v100('%s:%02x:00.0' % (domain, first + 1), i + 1),
                                  ids='10b5:8725'), ids='10b5:8725'), ids='1014:04c1'))

    def hca(domain, i):
        return host(bridge('%s:00:00.0' % domain, infiniband('%s:01:00.0' % domain, 'mlx5_%d' % i, 'ib%d' % i,
                                                             ids='15b3:1019'),
                           infiniband('%s:01:00.1' % domain, 'mlx5_%d' % (i + 1), 'ib%d' % (i + 1), up=i == 0,
                                      ids='15b3:1019'), ids='1014:04c1'))

    vga = host(bridge('0002:00:00.0', bridge('0002:01:00.0', other('0002:02:00.0', '1a03:2000', '0300'),
                                             ids='1a03:1150'), ids='1014:04c1'))
    eth = host(bridge('0005:00:00.0', ethernet('0005:01:00.0', 'enP5p1s0f0', '14e4:1657'),
                      ethernet('0005:01:00.1', 'enP5p1s0f1', '14e4:1657'), ids='1014:04c1'))
    return Machine('power9', socket(0, None, [vga, hca('0003', 0), pair('0004', 4, 0), eth]),
                   socket(1, None, [hca('0033', 2), pair('0035', 3, 2)]), infos={'HostName': 'power9'},
                   links={(0, 1): 75000, (2, 3): 75000})


# ---- a cloud machine whose PCI devices have no locality ----

def cloud_vm():
    model = 'AMD EPYC 7V12 64-Core Processor'

    def numa(q):
        return group(*ccx(24 * q, 24, 16384, 0, 4), memory=[node(q, 220)])

    gpus = [host(gpu('%04x:00:00.0' % d, '10de:20b0')) for d in (1, 2, 3, 4, 0xb, 0xc, 0xd, 0xe)]
    nics = [host(infiniband('%04x:00:00.0' % (0x101 + i), 'mlx5_ib%d' % i, 'ib%d' % i, ids='15b3:101c'))
            for i in range(8)]
    eth = host(roce('f8ff:00:02.0', 'mlx5_an0', 'enP63743s1', ids='15b3:1016'))
    return Machine('cloud-vm', package(0, model, numa(0), numa(1)), package(1, model, numa(2), numa(3)),
                   io=gpus + nics + [eth], infos={'HostName': 'cloud-vm'})


# ---- a virtual machine that tells nothing of its processor ----

def bare_vm():
    io = [host(ethernet('0000:00:03.0', 'eth0', '1af4:1041'), other('0000:00:04.0', '1af4:1042', '0100'),
               gpu('0000:00:05.0', '10de:1eb8'))]
    return Machine('bare-vm', *[Obj('PU', p, attrs={'offline': False}) for p in range(6)], memory=[node(0, 32)], io=io,
                   infos={'HostName': 'bare-vm'})


# ---- a laptop: two kinds of cores, one GPU, Ethernet and wireless ----

def laptop():
    fast = [core(4 * c, 2 * c, 2 * c + 1) for c in range(6)]
    slow = [cache(2, 2048, *[core(24 + 4 * k + c, 12 + 4 * k + c) for c in range(4)]) for k in range(2)]
    io = [host(other('0000:00:02.0', '8086:a7a0', '0300'),
               bridge('0000:00:01.0', gpu('0000:01:00.0', '10de:28a0', '0300'), ids='8086:a70d'),
               bridge('0000:00:1c.0', ethernet('0000:2d:00.0', 'enp45s0', '10ec:8168'), ids='8086:51bb'),
               ethernet('0000:00:14.3', 'wlp0s20f3', '8086:51f1', '0280'))]
    return Machine('laptop', package(0, '13th Gen Intel(R) Core(TM) i7-13700H', cache(3, 24576, *fast, *slow),
                                     memory=[node(0, 32)]), io=io, infos={'HostName': 'laptop'})


# ---- two sockets without GPUs, CPU numbers dealt to the sockets in turn; memory that belongs to no CPU ----

def cpu_node():
    model = 'Intel(R) Xeon(R) Gold 6248 CPU @ 2.50GHz'

    def socket(s, io):
        return package(s, model, cache(3, 28160, *[core(c, 2 * c + s, 2 * c + s + 40) for c in range(20)]),
                       memory=[node(s, 96)], io=io)

    a = [host(bridge('0000:00:1c.4', bridge('0000:01:00.0', other('0000:02:00.0', '102b:0536', '0300'),
                                            ids='1556:be00'), ids='8086:a194')),
         host(bridge('0000:17:00.0', ethernet('0000:18:00.0', 'em1', '14e4:16d7'),
                     ethernet('0000:18:00.1', 'em2', '14e4:16d7')))]
    b = [host(bridge('0000:ae:00.0', infiniband('0000:af:00.0', 'mlx5_0', 'ib0', ids='15b3:1019')))]
    return Machine('cpu-node', socket(0, a), socket(1, b), memory=[node(2, 256, has_cpus=False)],
                   infos={'HostName': 'cpu-node'})


# ---- an old workstation: one socket, no SMT, two GPUs on one root ----

def old_node():
    io = [host(bridge('0000:00:02.0', gpu('0000:02:00.0', '10de:1b06', '0300'), ids='8086:6f04'),
               bridge('0000:00:03.0', gpu('0000:03:00.0', '10de:1b06', '0300'), ids='8086:6f08'),
               ethernet('0000:00:19.0', 'eno1', '8086:15a0'))]
    return Machine('old-node', package(0, 'Intel(R) Xeon(R) CPU E5-1650 v4 @ 3.60GHz', cache(3, 15360, *[
        core(c, c) for c in range(6)]), memory=[node(0, 64)], io=io), infos={'HostName': 'old-node'})


# ---- asymmetric: three GPUs and one, cores offline, cores that this job may not use ----

def lopsided():
    model = 'Intel(R) Xeon(R) Gold 6326 CPU @ 2.90GHz'

    def socket(s, io, offline=()):
        return package(s, model, cache(3, 24576, *[core(c, 16 * s + c, 16 * s + c + 32, offline=offline)
                                                   for c in range(16)]), memory=[node(s, 128)], io=io)

    def slot(root, dev):
        return host(bridge('0000:%02x:02.0' % root, dev, ids='8086:347a'))

    a = [slot(0x16, gpu('0000:17:00.0', '10de:20b5')),
         host(bridge('0000:30:02.0', switch('0000:31:00.0',
              bridge('0000:32:00.0', gpu('0000:33:00.0', '10de:20b5'), ids='1000:c010'),
              bridge('0000:32:04.0', roce('0000:34:00.0', 'mlx5_0', 'ens3f0np0'), ids='1000:c010'),
              bridge('0000:32:08.0', gpu('0000:35:00.0', '10de:20b5'), ids='1000:c010'), ids='1000:c010'),
              ids='8086:347a'))]
    b = [slot(0x97, gpu('0000:98:00.0', '10de:20b5')), slot(0xb0, roce('0000:b1:00.0', 'mlx5_1', 'ens7f0np0')),
         slot(0xc9, ethernet('0000:ca:00.0', 'eno1', '14e4:165f'))]
    # package 1 lost two cores and one thread of a third; the first core of each package is the system's, 24-27 are
    # another job's
    return Machine('lopsided', socket(0, a), socket(1, b, offline=(30, 31, 62, 63, 61)),
                   disallowed={0, 32, 16, 48} | set(range(24, 28)) | set(range(56, 60)), infos={'HostName': 'lopsided'})


MACHINES = [hgx_h100(), hgx_snc(), dgx_a100(), dgx_2(), gh200_x4(), gh200_nvl2(), mi250x(), mi300x(), power9(),
            cloud_vm(), p5(), bare_vm(), laptop(), cpu_node(), old_node(), lopsided()]
