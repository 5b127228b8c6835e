# topology
noinst_LTLIBRARIES += libtopology.la
libtopology_la_SOURCES = \
	%D%/apart.c %D%/apart.h \
	%D%/cache.c %D%/cache.h \
	%D%/cpus.c %D%/cpus.h \
	%D%/devices.c %D%/devices.h \
	%D%/driver.c \
	%D%/fill.c \
	%D%/import.c \
	%D%/inventory.c %D%/inventory.h \
	%D%/load.c \
	%D%/load_impl.h \
	%D%/matching.c %D%/matching.h \
	%D%/models.c \
	%D%/placement.c %D%/placement.h \
	%D%/placement_cores.c \
	%D%/placement_gpus.c \
	%D%/placement_impl.h \
	%D%/placement_pools.c \
	%D%/record.c %D%/record.h \
	%D%/show.h \
	%D%/sysfs.c %D%/sysfs.h
libtopology_la_LIBADD = $(HWLOC_LIBS) $(JANSSON_LIBS)

# how it is shown
libtopology_la_SOURCES += \
	%D%/show/draw.c %D%/show/draw.h \
	%D%/show/explain.c %D%/show/explain.h \
	%D%/show/explain_better.c \
	%D%/show/explain_facts.c \
	%D%/show/explain_near.c \
	%D%/show/impl.h \
	%D%/show/json.c \
	%D%/show/layout.c %D%/show/layout.h \
	%D%/show/legend.c %D%/show/legend.h \
	%D%/show/links.c \
	%D%/show/machine.c \
	%D%/show/notes.c \
	%D%/show/owners.c \
	%D%/show/svg.c \
	%D%/show/table.c \
	%D%/show/text.c %D%/show/text.h \
	%D%/show/units.c \
	%D%/show/words.c

UNIT_TESTS += t/unit/topology/cache.t
t_unit_topology_cache_t_SOURCES = t/unit/topology/cache.c
UNIT_TESTS += t/unit/topology/devices.t
t_unit_topology_devices_t_SOURCES = t/unit/topology/devices.c
UNIT_TESTS += t/unit/topology/inventory.t
t_unit_topology_inventory_t_SOURCES = t/unit/topology/inventory.c
t_unit_topology_inventory_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=hwloc_topology_set_components
UNIT_TESTS += t/unit/topology/matching.t
t_unit_topology_matching_t_SOURCES = t/unit/topology/matching.c
UNIT_TESTS += t/unit/topology/placement_cores.t
t_unit_topology_placement_cores_t_SOURCES = t/unit/topology/placement_cores.c t/unit/topology/placing.c \
    t/unit/topology/placing.h
UNIT_TESTS += t/unit/topology/placement_golden.t
t_unit_topology_placement_golden_t_SOURCES = t/unit/topology/placement_golden.c
UNIT_TESTS += t/unit/topology/placement_random.t
t_unit_topology_placement_random_t_SOURCES = t/unit/topology/placement_random.c
UNIT_TESTS += t/unit/topology/record.t
t_unit_topology_record_t_SOURCES = t/unit/topology/record.c
UNIT_TESTS += t/unit/topology/show_explain.t
t_unit_topology_show_explain_t_SOURCES = t/unit/topology/show_explain.c t/unit/topology/showing.c \
    t/unit/topology/showing.h
UNIT_TESTS += t/unit/topology/show_json.t
t_unit_topology_show_json_t_SOURCES = t/unit/topology/show_json.c t/unit/topology/showing.c t/unit/topology/showing.h
UNIT_TESTS += t/unit/topology/show_picture.t
t_unit_topology_show_picture_t_SOURCES = t/unit/topology/show_picture.c t/unit/topology/showing.c \
    t/unit/topology/showing.h
UNIT_TESTS += t/unit/topology/show_table.t
t_unit_topology_show_table_t_SOURCES = t/unit/topology/show_table.c t/unit/topology/showing.c t/unit/topology/showing.h
UNIT_TESTS += t/unit/topology/show_text.t
t_unit_topology_show_text_t_SOURCES = t/unit/topology/show_text.c t/unit/topology/showing.c t/unit/topology/showing.h
UNIT_TESTS += t/unit/topology/sysfs.t
t_unit_topology_sysfs_t_SOURCES = t/unit/topology/sysfs.c
UNIT_TESTS += t/unit/topology/placement.t
t_unit_topology_placement_t_SOURCES = t/unit/topology/placement.c t/unit/topology/placing.c t/unit/topology/placing.h
t_unit_topology_placement_t_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc
# recorded machines, and what placement must give for them
EXTRA_DIST += t/data/README t/data/inventory t/data/topology
