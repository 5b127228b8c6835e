"""slurm-ddp for Spack 1.0 and later: packages/slurm_ddp/package.py of a repository of yours, and the
archive in a mirror (it has no home on the network yet). Not tried with Spack."""
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class SlurmDdp(AutotoolsPackage):
    """Data-parallel training as a Slurm step: a SPANK plugin, and a C library."""

    homepage = "https://slurm-ddp.invalid"
    url = "https://slurm-ddp.invalid/slurm-ddp-0.1.0.tar.gz"
    manual_download = True

    license("Apache-2.0")

    version("0.1.0")

    variant("plugin", default=True, description="Build the SPANK plugin, for the Slurm that it depends on")
    variant("pmix", default=True, description="Wire up through PMIx, too")
    variant("cuda", default=False, description="Train on NVIDIA GPUs")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2.7.1:")
    depends_on("jansson@2.10:")
    depends_on("xxhash@0.8:", type="build")
    depends_on("openblas")
    depends_on("elfutils", when="+plugin")
    depends_on("slurm", when="+plugin")
    depends_on("pmix@4:", when="+pmix")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl@2.19:", when="+cuda")

    def configure_args(self):
        return [
            *self.with_or_without("slurm", variant="plugin"),
            *self.with_or_without("pmix"),
            *self.with_or_without("cuda"),
            *self.with_or_without("nccl", variant="cuda"),
        ]
