"""doc/placement.md once more, word by word and slowly: what the golden tables are made with. It shares nothing with the
C code. Sections are numbered as there.

A rank is {'mask': set of CPUs, 'devices': [place of the GPU in machine.gpus, or None where the machine has it not]}."""
from functools import lru_cache


class Placement:
    def __init__(self, machine, ranks, keep=False):
        self.m, self.ranks, self.keep = machine, ranks, keep
        self.R = len(ranks)
        self.known = [r['mask'] & machine.cpus for r in ranks]
        self.pools = self.share_pools()                  # each: {'cpus': set, 'ranks': [..]}
        self.pool_of = {r: i for i, p in enumerate(self.pools) for r in p['ranks']}
        self.device = self.choose_devices()              # ordinal or None
        self.gpu = [None if o is None else ranks[r]['devices'][o] for r, o in enumerate(self.device)]
        self.cpus = self.choose_cores()
        self.numa = [self.memory(r) for r in range(self.R)]
        self.nic = self.choose_nics()                    # (place in machine.nics, distance) or None

    # ---- words ----

    def core_touches(self, core, cpus):
        return bool(core['cpus'] & cpus)

    def home(self, g):
        """Cores that touch the GPU's local CPUs; None where it has no home."""
        if g is None:
            return None
        local = self.m.gpus[g]['local']
        if not local or local == self.m.cpus:
            return None
        return frozenset(i for i, c in enumerate(self.m.cores) if self.core_touches(c, local))

    def package(self, g):
        """Cores of the GPU's package; nothing where no package holds all its local CPUs."""
        p = self.m.gpus[g]['package']
        return frozenset(i for i, c in enumerate(self.m.cores) if p is not None and c['package'] == p)

    def cores_of(self, cpus):
        return [i for i, c in enumerate(self.m.cores) if self.core_touches(c, cpus)]

    # ---- 1 ----

    def share_pools(self):
        if self.keep:
            return [{'cpus': set(k), 'ranks': [r]} for r, k in enumerate(self.known)]
        if any(self.home(g) is not None for r in self.ranks for g in r['devices']):
            return [{'cpus': set().union(*self.known), 'ranks': list(range(self.R))}]
        pools = [{'cpus': set(k), 'ranks': [r]} for r, k in enumerate(self.known)]
        merged = True
        while merged:
            merged = False
            for a in pools:
                for b in pools:
                    if a is not b and a['cpus'] & b['cpus'] and not merged:
                        a['cpus'] |= b['cpus']
                        a['ranks'] = sorted(a['ranks'] + b['ranks'])
                        pools.remove(b)
                        merged = True
                        break
                if merged:
                    break
        return sorted(pools, key=lambda p: p['ranks'][0])

    # ---- 2 ----

    def cost(self, r, g):
        home = self.home(g)
        if home is None:
            return 0
        pool = set(self.cores_of(self.pools[self.pool_of[r]]['cpus']))
        return 0 if pool & home else 1 if pool & self.package(g) else 2

    def choose_devices(self):
        lists = [tuple(r['devices']) for r in self.ranks]
        if not any(lists):
            return [None] * self.R
        if all(l == lists[0] for l in lists):
            return self.least_sum(lists[0])
        chosen, taken = [], []
        for r, l in enumerate(lists):
            best = None
            for o, g in enumerate(l):
                before = sum(1 for t in taken if g is not None and t == g)
                weight = (before, self.cost(r, g), (o - r) % len(l))
                if best is None or weight < best[0]:
                    best = (weight, o)
            chosen.append(None if best is None else best[1])
            taken.append(None if best is None else l[best[1]])
        return chosen

    def least_sum(self, devices):
        """All fair assignments, by their least sum; of these the first by (ordinal - rank) mod G."""
        G = len(devices)
        floor, cap = self.R // G, -(-self.R // G)
        never = 1 << 30
        costs = [[self.cost(r, g) for g in devices] for r in range(self.R)]

        @lru_cache(maxsize=None)
        def rest(r, used):
            """Least sum of ranks r and up, used[o] of device o being gone."""
            if r == self.R:
                return 0 if min(used) >= floor else never
            return min([costs[r][o] + rest(r + 1, used[:o] + (used[o] + 1,) + used[o + 1:])
                        for o in range(G) if used[o] < cap] or [never])

        used, chosen = (0,) * G, []
        for r in range(self.R):
            fits = [o for o in range(G) if used[o] < cap and
                    costs[r][o] + rest(r + 1, used[:o] + (used[o] + 1,) + used[o + 1:]) == rest(r, used)]
            o = min(fits, key=lambda o: (o - r) % G)
            chosen.append(o)
            used = used[:o] + (used[o] + 1,) + used[o + 1:]
        return chosen

    # ---- 3 and 4 ----

    def choose_cores(self):
        if self.keep:
            return [set(r['mask']) for r in self.ranks]
        ret = [None] * self.R
        homes = any(self.home(g) is not None for r in self.ranks for g in r['devices'])
        for pool in self.pools:
            if len(pool['ranks']) == 1 and not homes:    # nobody else touches its mask: it keeps it
                ret[pool['ranks'][0]] = set(self.ranks[pool['ranks'][0]]['mask'])
                continue
            for r, cpus in self.deal(pool['cpus'], pool['ranks']).items():
                ret[r] = cpus
        return ret

    def deal(self, cpus, ranks):
        cores = self.cores_of(cpus)
        m, R = len(cores), len(ranks)
        if m == 0:
            return {r: set(self.ranks[r]['mask']) for r in ranks}
        home = {r: self.home(self.gpu[r]) for r in ranks}
        if m >= R:
            seats = [(c, 0) for c in cores]
            want = self.how_many(cores, ranks, home)
        else:
            seats = [(c, s) for j, c in enumerate(cores) for s in range(sum(1 for i in range(R) if i * m // R == j))]
            want = {r: 1 for r in ranks}
        free, got = list(seats), {r: [] for r in ranks}
        pool = frozenset(cores)
        for round in 'abc':
            region = {}
            for r in ranks:
                if round == 'c':
                    region[r] = pool
                elif home[r] is not None:
                    region[r] = pool & (home[r] if round == 'a' else self.package(self.gpu[r]))
            groups = []
            for r in sorted(region):
                if len(got[r]) < want[r]:
                    for g in groups:
                        if g[0] == region[r]:
                            g[1].append(r)
                            break
                    else:
                        groups.append((region[r], [r]))
            for where, members in groups:
                here = [s for s in free if s[0] in where]
                count = {r: 0 for r in members}
                left = len(here)
                dealt = True
                while left and dealt:
                    dealt = False
                    for r in members:
                        if left and len(got[r]) + count[r] < want[r]:
                            count[r] += 1
                            left -= 1
                            dealt = True
                for r in members:
                    run, here = here[:count[r]], here[count[r]:]
                    got[r] += run
                    free = [s for s in free if s not in run]
        return {r: set().union(*[self.m.cores[c]['cpus'] & cpus for c, _ in got[r]]) for r in ranks}

    def how_many(self, cores, ranks, home):
        m, R = len(cores), len(ranks)
        if all(h is None for h in home.values()):
            return {r: (i + 1) * m // R - i * m // R for i, r in enumerate(ranks)}
        want = {r: m // R for r in ranks}
        extra = m % R
        given = {}
        pool = frozenset(cores)
        for r in ranks:
            if extra and home[r] is not None:
                h = home[r] & pool
                with_this = sum(1 for q in ranks if home[q] is not None and home[q] & pool == h)
                if len(h) > (m // R) * with_this + given.get(h, 0):
                    want[r] += 1
                    given[h] = given.get(h, 0) + 1
                    extra -= 1
        for r in ranks:
            if extra and want[r] == m // R:
                want[r] += 1
                extra -= 1
        return want

    # ---- 5 ----

    def memory(self, r):
        if self.R == 1 and len(self.ranks[r]['devices']) > 1:
            return None
        mine = self.cores_of(self.cpus[r])
        g = self.gpu[r]
        if g is not None and self.has_memory(self.m.gpus[g]['numa']):
            n = self.m.gpus[g]['numa']
            if any(self.m.cores[c]['numa'] == n for c in mine):
                return n
        nodes = {self.m.cores[c]['numa'] for c in mine}
        return nodes.pop() if len(nodes) == 1 and self.has_memory(min(nodes)) else None

    def has_memory(self, n):
        return n is not None and self.m.numas[n].attrs['local_memory'] > 0

    # ---- 6 ----

    def choose_nics(self):
        fast = [i for i, n in enumerate(self.m.nics) if n['active'] and n['kind'] != 'Ethernet']
        nics = fast or [i for i, n in enumerate(self.m.nics) if n['active']]
        ret, had = [], {}
        for r in range(self.R):
            best = None
            for i in nics:
                nic = self.m.nics[i]
                shared = 0 if self.gpu[r] is None else self.m.shared_bridges(self.m.gpus[self.gpu[r]], nic)
                weight = (self.nic_distance(r, nic), -shared, had.get(i, 0), i)
                if best is None or weight < best:
                    best = weight
            if best is not None:
                had[best[3]] = had.get(best[3], 0) + 1
            ret.append(None if best is None else (best[3], best[0]))
        return ret

    def nic_distance(self, r, nic):
        if self.gpu[r] is not None:
            return self.m.distance(self.m.gpus[self.gpu[r]], nic)
        if nic['local'] == self.m.cpus:
            return 3
        return 2 if nic['local'] & self.cpus[r] else 3
