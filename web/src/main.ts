import "./app.css";
import { mount } from "svelte";
import { live } from "./api/live.svelte.ts";
import App from "./App.svelte";
import { theme } from "./theme.svelte.ts";
import { zone } from "./zone.svelte.ts";

theme.start();
zone.start();
live.start();
const target = document.getElementById("app");
if (target) mount(App, { target });
