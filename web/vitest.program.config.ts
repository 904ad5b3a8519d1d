import { defineConfig } from "vitest/config";

// Against an agent of the program, which `cargo xtask page-in-program` or `page-many` starts; each
// names its file.
export default defineConfig({
  test: {
    include: ["e2e/in-program.ts", "e2e/many.ts"],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    fileParallelism: false,
  },
});
