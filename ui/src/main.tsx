import { render } from "preact";
import { begin } from "./session";
import { connection, start } from "./store";
import { App } from "./view/App";
import "uplot/dist/uPlot.min.css";
import "./style.css";

if (await begin()) start();
else connection.value = "denied";
render(<App />, document.getElementById("app")!);
