/** Tests that Windows' Deno in wine cannot pass, with the reasons; a name may be its beginning. */
export const leftOut: readonly (readonly [test: string, reason: string])[] = [];
