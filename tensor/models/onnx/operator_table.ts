import type { Operator, Operators } from "./core/call.ts";
import { attentionOperators } from "./operators/attention.ts";
import { classical } from "./operators/classical.ts";
import { contributed } from "./operators/contributed/contributed.ts";
import { control } from "./operators/control.ts";
import { products } from "./operators/images/convolutions.ts";
import { deformable } from "./operators/images/deformable.ts";
import { elementwise } from "./operators/elementwise.ts";
import { indexing } from "./operators/indexing.ts";
import { normalizations } from "./operators/normalization.ts";
import { quantizedOperators } from "./operators/quantized.ts";
import { random } from "./operators/random.ts";
import { recurrent } from "./operators/recurrent.ts";
import { reductions } from "./operators/reductions.ts";
import { resizing } from "./operators/images/resizing.ts";
import { sampling } from "./operators/images/sampling.ts";
import { shapes } from "./operators/shapes.ts";
import { stateSpace } from "./operators/state_space.ts";
import { sound } from "./operators/sound.ts";
import { pools } from "./operators/images/windows.ts";

/** Operators of other domains, by these. */
const others: Readonly<Record<string, Operators>> = {
  "com.microsoft": contributed,
  "ai.onnx.ml": classical,
};

/** Every kind of node that is run: ONNX's own by their names, others with their domain before it. */
export const operators: ReadonlyMap<string, Operator> = new Map([
  ...[
    elementwise,
    reductions,
    shapes,
    indexing,
    products,
    pools,
    resizing,
    sampling,
    deformable,
    sound,
    random,
    normalizations,
    recurrent,
    quantizedOperators,
    attentionOperators,
    stateSpace,
    control,
  ].flatMap((table) => Object.entries(table)),
  ...Object.entries(others).flatMap(([domain, table]) =>
    Object.entries(table).map(([kind, operator]) => [`${domain}.${kind}`, operator] as const)
  ),
]);
