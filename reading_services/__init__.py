"""Reading services, which run a graph in a process, threads, processes or ranks, and the transport of its elements.

- ``cluster/``: workers on the machines of a cluster
- ``interface/``: the interface of a reading service, which a plugin implements, and worker info
- ``ipu/``: PopTorch's host side on a CPU: ``import reading_services.ipu as poptorch`` runs a data-loading script
  unchanged
- ``network/``: between hosts: addresses to listen at, and the mutual proof of a shared secret
- ``ranks/``: connections among the ranks of a process group: a tree of sockets
- ``workers/``: worker processes and threads that make the elements of a graph, and their transport
- ``distributed``: DistributedReadingService: each rank of a process group on its shard
- ``in_process``: InProcessReadingService: the graph in the loader's own process
- ``multi_process``: MultiProcessingReadingService: copies of the graph in worker processes
- ``sequential``: SequentialReadingService: several services as one
- ``stage_times``: measured time of each stage of a graph
- ``threads``: ThreadingReadingService: copies of the graph in threads of the loader's process
"""

from datapipes.description.exports import lazy_imports

with lazy_imports(__name__):
    from datapipes.errors import PrefetchTimeoutError as PrefetchTimeoutError
    from datapipes.errors import RankDied as RankDied
    from datapipes.errors import RankFailed as RankFailed
    from datapipes.errors import RankLeft as RankLeft
    from datapipes.errors import RanksDiffer as RanksDiffer
    from datapipes.errors import RanksError as RanksError
    from datapipes.errors import UnevenRanks as UnevenRanks
    from datapipes.errors import WorkerDied as WorkerDied
    from datapipes.errors import WorkerError as WorkerError
    from datapipes.errors import WorkerTimeout as WorkerTimeout
    from datapipes.ranks.synchronized import PADDING as PADDING
    from reading_services.cluster.service import RayReadingService as RayReadingService
    from reading_services.distributed import DistributedReadingService as DistributedReadingService
    from reading_services.in_process import InProcessReadingService as InProcessReadingService
    from reading_services.interface.service import (
        CheckpointableReadingServiceInterface as CheckpointableReadingServiceInterface,
    )
    from reading_services.interface.service import ReadingServiceInterface as ReadingServiceInterface
    from reading_services.interface.service import WorkerInfo as WorkerInfo
    from reading_services.interface.service import get_worker_info as get_worker_info
    from reading_services.multi_process import MultiProcessingReadingService as MultiProcessingReadingService
    from reading_services.sequential import SequentialReadingService as SequentialReadingService
    from reading_services.threads import ThreadingReadingService as ThreadingReadingService
