import { defineConfig } from "vitest/config";

// Against an agent of the program, which `cargo xtask page-in-program` starts.
export default defineConfig({
  test: {
    include: ["e2e/in-program.ts"],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    fileParallelism: false,
  },
});
