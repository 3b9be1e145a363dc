"""The kinds of real work, by the names in which `--only` knows them."""

from benchmarks.real import crops, csv_rows, images, memory_map, parquet, small_images, sound, tars, text
from benchmarks.real.kind import Kind

KINDS: dict[str, Kind] = {
    "images": images.KIND,
    "images-crop": crops.KIND,
    "tars-streams": tars.KINDS[tars.STREAMS],
    "tars-bytes": tars.KINDS[tars.BYTES],
    "tars-decoded": tars.KINDS[tars.DECODED],
    "tars-streams-crop": crops.KINDS[tars.STREAMS],
    "tars-decoded-crop": crops.KINDS[tars.DECODED],
    "text": text.KIND,
    "parquet": parquet.KIND,
    "csv": csv_rows.KIND,
    "memory-map": memory_map.KIND,
    "small-images": small_images.KIND,
    "sound": sound.KIND,
}
