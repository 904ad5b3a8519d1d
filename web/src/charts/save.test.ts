import { expect, it } from "vitest";
import { csv } from "./save.ts";

it("writes CSV that no spreadsheet runs", () => {
  expect(csv(["host", "value"], [["=cmd()", 1.5], ['a "b", c', undefined], ["-x", null]])).toBe(
    "host,value\r\n'=cmd(),1.5\r\n\"a \"\"b\"\", c\",\r\n'-x,\r\n",
  );
});
