import { defineConfig } from "vitest/config";

// Against an agent of the program: `cargo xtask page-in-program` starts one and runs this.
export default defineConfig({
  test: {
    include: ["e2e/in-program.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
