/** Launchers bind ranks to cores. */
import { allowedCores } from "../../ffi/host/libc.ts";

/** So few cores keep the threads of a runtime and of a driver waiting for the program's. */
const FEW_CORES = 2;
let isTold = false;

/** Advice for a process of a GPU that may use so many cores of its host; null where there is none to give. */
export function bindingAdvice(cores: number, all: number): string | null {
  if (cores > FEW_CORES || all <= FEW_CORES) return null;
  return `netcl: this rank may use ${cores} of ${all} cores, where the threads of its runtime and of the ` +
    "GPU's driver wait for each other; mpirun --bind-to none gives it all of them";
}

/** Prints it, once. */
export function adviseOnBinding(): void {
  if (isTold) return;
  isTold = true;
  const allowed = allowedCores();
  const advice = allowed && bindingAdvice(allowed.cores.length, allowed.all);
  if (advice !== null) console.error(advice);
}
