"""The payload of TensorFlow's records is read as protobuf reads it, and any other bytes are an error at most."""

from __future__ import annotations

import struct
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st

from datapipes.iter.formats.tfrecord import parse
from tests.records import sequence_example


def message_class() -> Any:
    """tf.train.SequenceExample for protobuf, as its authors define it."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="sequence_example.proto", package="tf", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, str], repeated: bool = True) -> Any:
        made = file.message_type.add(name=name)
        for key, number, kind in fields:
            plain = {"bytes": field.TYPE_BYTES, "float": field.TYPE_FLOAT, "int64": field.TYPE_INT64}.get(kind)
            made.field.add(
                name=key,
                number=number,
                type=plain or field.TYPE_MESSAGE,
                type_name=None if plain else f".tf.{kind}",
                label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
            )
        return made

    def mapping(name: str, key: str, entry: str, kind: str) -> None:
        made = message(name, (key, 1, f"{name}.{entry}")).nested_type.add(name=entry)
        made.options.map_entry = True
        made.field.add(name="key", number=1, type=field.TYPE_STRING, label=field.LABEL_OPTIONAL)
        made.field.add(
            name="value", number=2, type=field.TYPE_MESSAGE, type_name=f".tf.{kind}", label=field.LABEL_OPTIONAL
        )

    for name, kind in (("BytesList", "bytes"), ("FloatList", "float"), ("Int64List", "int64")):
        message(name, ("value", 1, kind))
    lists = [("bytes_list", 1, "BytesList"), ("float_list", 2, "FloatList"), ("int64_list", 3, "Int64List")]
    feature = message("Feature", *lists, repeated=False)
    feature.oneof_decl.add(name="kind")
    for one in feature.field:
        one.oneof_index = 0
    mapping("Features", "feature", "FeatureEntry", "Feature")
    message("FeatureList", ("feature", 1, "Feature"))
    mapping("FeatureLists", "feature_list", "FeatureListEntry", "FeatureList")
    parts = [("context", 1, "Features"), ("feature_lists", 2, "FeatureLists")]
    message("SequenceExample", *parts, repeated=False)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tf.SequenceExample"))


VALUES = (
    st.lists(st.binary(max_size=200), max_size=5)
    | st.lists(st.floats(width=32), max_size=40)
    | st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5)
    | st.lists(st.sampled_from([0, 1, 127, 128, 2**40, -1]), min_size=20, max_size=60)
)
SEQUENCE_EXAMPLE = message_class()


@given(
    st.dictionaries(st.text(max_size=3), VALUES, max_size=4),
    st.dictionaries(st.text(max_size=3), st.lists(VALUES, max_size=3), max_size=3),
)
def test_it_reads_what_protobuf_writes(context: dict[str, Any], lists: dict[str, Any]) -> None:
    message = SEQUENCE_EXAMPLE()
    for name, values in context.items():
        put(message.context.feature[name], values)
    for name, steps in lists.items():
        message.feature_lists.feature_list[name].SetInParent()
        for values in steps:
            put(message.feature_lists.feature_list[name].feature.add(), values)
    data = message.SerializeToString()
    as_lists = {name: plain(values) for name, values in context.items()}
    assert {name: plain(values) for name, values in parse(data)[0].items()} == as_lists
    assert {name: list(map(plain, steps)) for name, steps in parse(data)[1].items()} == {
        name: list(map(plain, steps)) for name, steps in lists.items()
    }
    put_by_hand = parse(sequence_example(context, lists))
    assert {name: plain(values) for name, values in put_by_hand[0].items()} == as_lists
    wanted = set(list(context)[:1])
    assert {name: plain(values) for name, values in parse(data, wanted)[0].items()} == {
        name: values for name, values in as_lists.items() if name in wanted
    }


def put(feature: Any, values: list[Any]) -> None:
    kind = {bytes: feature.bytes_list, float: feature.float_list, int: feature.int64_list}[
        type(values[0]) if values else bytes
    ]
    kind.value.extend(values)


def plain(values: Any) -> Any:
    values = values.tolist() if isinstance(values, torch.Tensor) else values
    return [struct.pack("<f", value) if isinstance(value, float) else value for value in values]


@given(st.binary(max_size=60))
def test_any_bytes_give_values_or_value_error(data: bytes) -> None:
    for noise in (data, b"\x0a" + bytes([len(data)]) + data):
        try:
            parse(noise)
        except ValueError:
            continue
