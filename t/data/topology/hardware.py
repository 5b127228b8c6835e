"""Parts that machines are made of: a tree of objects as hwloc has it, and what it says once it is built.

A description (machines.py) nests the parts; make-machines writes them as hwloc's XML; place-by-rule asks the questions
at the end of this file. CPUs and NUMA nodes are sets of OS numbers.
"""


class Obj:
    def __init__(self, type, os=None, kids=(), memory=(), io=(), attrs=None, infos=None):
        self.type, self.os = type, os
        self.kids, self.memory, self.io = list(kids), list(memory), list(io)
        self.attrs, self.infos = attrs or {}, infos or {}
        self.cpus = set()       # online
        self.complete = set()   # and offline
        self.nodes = set()

    def below(self):
        """This object and all normal objects below it, in hwloc's logical order."""
        yield self
        for k in self.kids:
            yield from k.below()


# ---- CPUs and memory ----

def core(os, *threads, offline=()):
    return Obj('Core', os, [Obj('PU', t, attrs={'offline': t in offline}) for t in threads])


def cache(level, kib, *kids):
    return Obj('L%dCache' % level, None, kids,
               attrs={'cache_size': kib * 1024, 'depth': level, 'cache_linesize': 64, 'cache_type': 0})


def node(os, gib, subtype=None, has_cpus=True, **infos):
    """A NUMA node. has_cpus False: memory without CPUs of its own, beside the CPUs that it is put to."""
    o = Obj('NUMANode', os, attrs={'local_memory': gib << 30}, infos=infos)
    if subtype:
        o.attrs['subtype'] = subtype
    o.has_cpus = has_cpus
    return o


def group(*kids, memory=(), io=()):
    """What hwloc puts around the CPUs of a NUMA node that are neither a package nor one cache."""
    return Obj('Group', None, kids, memory, io, attrs={'kind': 1001, 'subkind': 0})


def package(os, model, *kids, memory=(), io=()):
    return Obj('Package', os, kids, memory, io, infos={'CPUModel': model} if model else {})


# ---- PCI ----

class Pci:
    def __init__(self, type, busid=None, ids=None, cls=None, kids=(), os=(), subtype=None):
        self.type, self.busid, self.ids, self.cls, self.subtype = type, busid, ids, cls, subtype
        self.kids, self.os = list(kids), list(os)

    @property
    def address(self):
        """domain, bus, device, function"""
        domain, bus, rest = self.busid.split(':')
        device, function = rest.split('.')
        return int(domain, 16), int(bus, 16), int(device, 16), int(function, 16)

    def last_bus(self):
        return max([k.last_bus() for k in self.kids] or [self.address[1]])

    def below(self):
        yield self
        for k in self.kids:
            yield from k.below()


class Os:
    NETWORK, VERBS, GPU = 2, 3, 1

    def __init__(self, name, type, subtype=None, **infos):
        self.name, self.type, self.subtype, self.infos = name, type, subtype, infos


def host(*kids):
    """A root complex (hwloc's host bridge)."""
    return Pci('host', kids=kids)


def bridge(busid, *kids, ids='8086:2030'):
    return Pci('bridge', busid, ids, '0604', kids)


def switch(busid, *kids, ids='1000:c030'):
    """A PCIe switch: its upstream bridge; the ports below it are given as the kids."""
    return bridge(busid, *kids, ids=ids)


def gpu(busid, ids, cls='0302', os=()):
    return Pci('dev', busid, ids, cls, os=os)


def other(busid, ids, cls, subtype=None):
    """A device that is neither a GPU of ours nor a NIC: a BMC's VGA, a disk, an NVSwitch."""
    return Pci('dev', busid, ids, cls, subtype=subtype)


def infiniband(busid, verbs, net=None, up=True, ids='15b3:1021'):
    os = [Os(net, Os.NETWORK)] if net else []
    return Pci('dev', busid, ids, '0207', os=os + [Os(verbs, Os.VERBS, Port1State='4' if up else '1')])


def roce(busid, verbs, net, up=True, ids='15b3:101d'):
    return Pci('dev', busid, ids, '0200',
               os=[Os(net, Os.NETWORK), Os(verbs, Os.VERBS, Port1State='4' if up else '1')])


def efa(busid, verbs):
    """A NIC with verbs and no network interface."""
    return Pci('dev', busid, '1d0f:efa2', '0200', os=[Os(verbs, Os.VERBS, Port1State='4')])


def ethernet(busid, net, ids='8086:1521', cls='0200'):
    return Pci('dev', busid, ids, cls, os=[Os(net, Os.NETWORK)])


def slingshot(busid, net):
    return Pci('dev', busid, '17db:0501', '0200', os=[Os(net, Os.NETWORK)])


# ---- a machine and what is asked of it ----

class Machine:
    """kids, memory, io: of the machine itself. disallowed: CPUs that this record's owner may not use. links: MB/s each
    way between GPUs as {(i, j): n}, i and j in PCI order."""

    def __init__(self, name, *kids, memory=(), io=(), disallowed=(), links=None, link_name='NVLinkBandwidth',
                 through=(), infos=None):
        self.name = name
        self.root = Obj('Machine', 0, kids, memory, io, infos=infos or {})
        self.disallowed = set(disallowed)
        self.links, self.link_name = links or {}, link_name
        self.through = list(through)    # bus ids of NVSwitches, each linked to each GPU
        self._fill(self.root)
        self._nodes(self.root, set())
        self.cpus = self.root.cpus
        self.allowed = self.cpus - self.disallowed
        self._tables()

    def _fill(self, o):
        if o.type == 'PU':
            o.complete = {o.os}
            o.cpus = set() if o.attrs.pop('offline') else {o.os}
            return
        for k in o.kids:
            self._fill(k)
            o.cpus |= k.cpus
            o.complete |= k.complete

    def _nodes(self, o, above):
        mine = {m.os for m in o.memory}
        below = set()
        for k in o.kids:
            below |= self._nodes(k, mine or above)
        o.nodes = mine | below or set(above)
        for m in o.memory:
            m.nodes = {m.os}
            m.cpus = set(o.cpus) if o is not self.root or m.has_cpus else set()
            m.complete = set(o.complete) if o is not self.root or m.has_cpus else set()
        return mine | below

    def _tables(self):
        """packages, numas (with cores only), cores, gpus, nics: in the order and with the numbers of the inventory."""
        objects = list(self.root.below())
        self.packages = [o for o in objects if o.type == 'Package'] or [self.root]
        self.numas = [m for o in objects for m in o.memory if m.has_cpus and m.cpus]
        cores = [o for o in objects if o.type == 'Core'] or [o for o in objects if o.type == 'PU']
        caches = [o for o in objects if o.type.endswith('Cache')]
        self.cores = []
        for c in cores:
            if not c.cpus:
                continue
            shared = [k for k in caches if c.cpus <= k.cpus and k.cpus != c.cpus]
            self.cores.append({
                'cpus': set(c.cpus),
                'package': self._holder(self.packages, c.cpus),
                'numa': self._holder(self.numas, c.cpus),
                'cache': max(shared, key=lambda k: k.attrs['depth']) if shared else None})
        used = []
        for c in self.cores:
            if c['cache'] is not None and c['cache'] not in used:
                used.append(c['cache'])
        for c in self.cores:
            c['cache'] = used.index(c['cache']) if c['cache'] is not None else None
        devices = []
        for o in objects:
            for h in o.io:
                self._devices(h, [], o, devices)
        devices.sort(key=lambda d: d['pci'].address)
        self.gpus = [d for d in devices if d['pci'].cls[:2] in ('03', '12') and d['pci'].ids[:4] in ('10de', '1002')]
        self.nics = [d for d in devices if d['pci'].cls[:2] == '02' or d['pci'].cls == '0c06']
        for n in self.nics:
            self._nic(n)

    @staticmethod
    def _holder(holders, cpus):
        inside = [i for i, h in enumerate(holders) if cpus and cpus <= h.cpus]
        return inside[0] if inside else None

    def _devices(self, p, path, where, ret):
        if p.type == 'dev':
            ret.append({'pci': p, 'path': path, 'local': set(where.cpus),
                        'package': self._holder(self.packages, where.cpus),
                        'numa': self._holder(self.numas, where.cpus)})
        for k in p.kids:
            self._devices(k, path + [p], where, ret)

    @staticmethod
    def _nic(n):
        pci = n['pci']
        verbs = [o for o in pci.os if o.type == Os.VERBS]
        nets = [o for o in pci.os if o.type == Os.NETWORK]
        n['verbs'] = verbs[0].name if verbs else None
        n['interface'] = nets[0].name if nets else None
        n['active'] = not verbs or verbs[0].infos['Port1State'] == '4'
        n['kind'] = ('InfiniBand' if pci.cls == '0207' else 'Slingshot' if pci.ids == '17db:0501'
                     else 'RoCE' if verbs else 'Ethernet')

    @staticmethod
    def shared_bridges(a, b):
        """How many bridges, the root complex first, lie above both."""
        common = 0
        while common < min(len(a['path']), len(b['path'])) and a['path'][common] is b['path'][common]:
            common += 1
        return common

    def distance(self, a, b):
        """Of two PCI devices: 0 same switch, 1 same root, 2 same package, 3 across. The first common ancestor of the
        two is a bridge, a root complex, or else a package holds both."""
        common = self.shared_bridges(a, b)
        if common > 1:
            return 0
        if common == 1:
            return 1
        return 2 if a['package'] is not None and a['package'] == b['package'] else 3
