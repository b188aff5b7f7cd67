"""Convert a GGUF file's weights to 8 bits, which llama.cpp multiplies faster than 4 bits on many processors."""

import functools
import tempfile
from pathlib import Path

LIBRARY = "gguf"
FORMAT = "Q8_0"

_folder = functools.cache(lambda: tempfile.TemporaryDirectory(prefix="ragsweep-", ignore_cleanup_errors=True))
"""Returns a temporary folder, created at the first call and removed at the end of the process."""


@functools.cache
def convert(source: Path, digest: str) -> Path:
    """Rewrite the model with its matrices in Q8_0, once per process; return the file.

    ``digest`` identifies the content of the source. Q8_0 stores blocks of 32 weights, one byte each, with a common
    scale; this adds less error than rounding to 4 bits. Vectors, such as norms, are copied.
    """
    import gguf

    target = Path(_folder().name) / f"{digest}.gguf"
    read = gguf.GGUFReader(source)
    written = gguf.GGUFWriter(target, read.fields["general.architecture"].contents())
    for field in read.fields.values():
        if not field.name.startswith("GGUF.") and field.name != "general.architecture":
            written.add_key_value(field.name, field.contents(), field.types[0], sub_type=field.types[-1])
    eight = gguf.GGMLQuantizationType[FORMAT]
    for tensor in read.tensors:
        data, kind = tensor.data, tensor.tensor_type
        if len(tensor.shape) > 1 and kind != eight:
            data, kind = gguf.quants.quantize(gguf.quants.dequantize(data, kind), eight), eight
        written.add_tensor(tensor.name, data, raw_dtype=kind)
    written.write_header_to_file()
    written.write_kv_data_to_file()
    written.write_tensors_to_file()
    written.close()
    return target
