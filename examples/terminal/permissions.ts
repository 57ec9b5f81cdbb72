import { UsageError } from "../flags.ts";

/**
 * Asks for what will be read and written before the work begins, not after it is done. With flags
 * such as -A nothing is asked.
 *
 * @throws UsageError that says which flag allows what was refused.
 */
export async function askFor(...permissions: Deno.PermissionDescriptor[]): Promise<void> {
  for (const permission of permissions) {
    const { state } = await Deno.permissions.request(permission);
    if (state === "granted") continue;
    const path = "path" in permission ? ` "${permission.path}"` : "";
    throw new UsageError(
      `May not ${permission.name}${path}: allow it with --allow-${permission.name}, ` +
        "or everything with -A",
    );
  }
}
