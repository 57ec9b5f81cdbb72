/**
 * Mixed precision: less memory and time by half precision where it does no harm.
 *
 * @module
 */
export { autocast, type HalfType } from "./autocast.ts";
export { GradScaler, type GradScalerOptions } from "./grad_scaler.ts";
