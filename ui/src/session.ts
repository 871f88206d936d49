/** The token of this server: from the address when the page is opened, then in this tab only. */

const KEY = "streamjob-token";
let token = "";

/** Take the token out of the address, where it would stay in the browser's history. */
export async function begin(): Promise<boolean> {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const once = fragment.get("once");
  const given = once === null ? fragment.get("token") : await exchange(once);
  if (once !== null || given !== null) history.replaceState(null, "", "#/");
  if (given !== null) sessionStorage.setItem(KEY, given);
  token = given ?? sessionStorage.getItem(KEY) ?? "";
  return token !== "";
}

async function exchange(code: string): Promise<string | null> {
  const answer = await fetch("api/session", { method: "POST", headers: { Authorization: `Once ${code}` } });
  return answer.ok ? ((await answer.json()) as { token: string }).token : null;
}

/** The server has refused something, and says why. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly remedy: string,
  ) {
    super(message);
  }
}

export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const answer = await fetch(`api/${path}`, { ...init, headers: { ...init.headers, Authorization: `Bearer ${token}` } });
  if (answer.ok) return answer;
  const said = (await answer.json().catch(() => ({}))) as { message?: string; remedy?: string };
  throw new Refused(answer.status, said.message ?? answer.statusText, said.remedy ?? "");
}

export async function read<T>(path: string): Promise<T> {
  return (await (await call(path)).json()) as T;
}
