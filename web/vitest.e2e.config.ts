import { defineConfig } from "vitest/config";

// One browser, one page after another: the pages share one fixture server.
export default defineConfig({
  test: {
    include: ["e2e/**/*.e2e.ts"],
    testTimeout: 60_000,
    hookTimeout: 60_000,
    fileParallelism: false,
  },
});
