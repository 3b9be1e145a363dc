"""PopTorch's public names that have no counterpart here, and what to write in place of each."""

from __future__ import annotations

from collections.abc import Mapping

_PHASES = "use Stage with PipelinedExecution or ShardedExecution: phases of a model are not simulated"
_OVERLAP = "leave it out, the tensors stay as they are; CostModel(overlap=True) models input and output beside compute"
_MULTI_CONV = "leave it out: the convolutions in the block are computed one after the other, with the same result"
_HALF = "use torch.autocast or .half() in forward"

INSTEAD: Mapping[str, str] = {
    "HalfFloatCastingBehavior": _HALF,
    "Liveness": _PHASES,
    "MatMulSerializationMode": "leave it out, with serializedMatMul: write torch.matmul(lhs, rhs)",
    "MultiConv": _MULTI_CONV,
    "MultiConvPlanType": _MULTI_CONV,
    "OverlapMode": _OVERLAP,
    "ParallelPhasedExecution": _PHASES,
    "Phase": _PHASES,
    "SerialPhasedExecution": _PHASES,
    "autocasting": _HALF,
    "cond": "write then_body(*then_inputs) if condition else else_body(*else_inputs), or torch.where",
    "ctc_beam_search_decoder": "decode the model's outputs on the host, with torchaudio.models.decoder.ctc_decoder",
    "custom_op": "write the operation with torch's, as a torch.autograd.Function if it has a gradient of its own",
    "dynamic_slice": "write tensor.narrow(dim, start, size), and take every step-th of that",
    "dynamic_update": "write torch.slice_scatter(input, src, dim, int(start), int(start) + size)",
    "experimental": "write without it: trainingModel and inferenceModel run models",
    "for_loop": "write a loop of Python: for _ in range(count): inputs = body(*inputs)",
    "fps": "use torch_cluster.fps",
    "load": "call trainingModel or inferenceModel, and load_state_dict: no compiled model is kept in a file",
    "nearest": "use torch_cluster.nearest, or torch.cdist(x, y).argmin(dim=1)",
    "recomputationCheckpoint": "leave it out, or use torch.utils.checkpoint.checkpoint: memory is not modelled",
    "serializedMatMul": "write torch.matmul(lhs, rhs)",
    "set_overlap_for_input": _OVERLAP,
    "set_overlap_for_output": _OVERLAP,
}
"""Name -> what to write."""
