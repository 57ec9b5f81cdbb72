/** Loaded before tests on rusticl: ignores those that the table leaves out for the faults that RUSTICL_FAULTS names. */
import { leaveOut } from "../suite/left_out/left_out.ts";
import { tests } from "./left_out.ts";

const found = (Deno.env.get("RUSTICL_FAULTS") ?? "").split(",");
leaveOut(tests, (reason) => found.includes(reason));
