/**
 * Mixed precision: less memory and time by half precision where it does no harm. `autocast` says where,
 * `GradScaler` keeps the gradients of float16 in its range; bfloat16 needs no scaler.
 *
 * This folder imports `optim/optimizer/`, `ops/`, `execution/` and `core/`. Losses come from users;
 * scaled gradients go to an optimizer.
 *
 * @module
 */
export { autocast, type HalfType } from "../core/autocast.ts";
export { GradScaler, type GradScalerOptions } from "./grad_scaler.ts";
