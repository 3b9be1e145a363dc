"""PopTorch's enums under the name of its module."""

from datapipes.description.exports import lazy_imports

with lazy_imports(__name__):
    from reading_services.ipu.names.enums import CommGroupType as CommGroupType
    from reading_services.ipu.names.enums import ConnectionType as ConnectionType
    from reading_services.ipu.names.enums import DataLoaderMode as DataLoaderMode
    from reading_services.ipu.names.enums import MeanReductionStrategy as MeanReductionStrategy
    from reading_services.ipu.names.enums import OutputMode as OutputMode
    from reading_services.ipu.names.enums import ReductionType as ReductionType
    from reading_services.ipu.names.enums import SharingStrategy as SharingStrategy
    from reading_services.ipu.names.enums import SyncPattern as SyncPattern
    from reading_services.ipu.names.enums import VariableRetrievalMode as VariableRetrievalMode
