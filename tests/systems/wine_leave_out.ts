/** Loaded before tests in wine: ignores those that the table leaves out. */
import { leaveOut } from "../suite/left_out/left_out.ts";
import { leftOut } from "./wine_left_out.ts";

leaveOut(leftOut);
