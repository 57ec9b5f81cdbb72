import type { Operator, Operators } from "../core/call.ts";
import { attentionOperators } from "./attention.ts";
import { classical } from "./classical.ts";
import { contributed } from "./contributed/contributed.ts";
import { control } from "./control.ts";
import { products } from "./images/convolutions.ts";
import { elementwise } from "./elementwise.ts";
import { indexing } from "./indexing.ts";
import { normalizations } from "./normalization.ts";
import { quantizedOperators } from "./quantized.ts";
import { random } from "./random.ts";
import { recurrent } from "./recurrent.ts";
import { reductions } from "./reductions.ts";
import { resizing } from "./images/resizing.ts";
import { sampling } from "./images/sampling.ts";
import { shapes } from "./shapes.ts";
import { sound } from "./sound.ts";
import { pools } from "./images/windows.ts";

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
    sound,
    random,
    normalizations,
    recurrent,
    quantizedOperators,
    attentionOperators,
    control,
  ].flatMap((table) => Object.entries(table)),
  ...Object.entries(others).flatMap(([domain, table]) =>
    Object.entries(table).map(([kind, operator]) => [`${domain}.${kind}`, operator] as const)
  ),
]);
