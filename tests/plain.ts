/**
 * The variables of a child whose output is compared: no colours, also at a terminal and where the
 * user forces them. FORCE_COLOR would win over NO_COLOR; Deno takes an empty one for none.
 */
export const plain: Readonly<Record<string, string>> = { NO_COLOR: "1", FORCE_COLOR: "" };
