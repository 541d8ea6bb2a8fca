// Where the page's data comes from: the server that gave the page, or the page itself.

// The page holds the session: it was exported.
export function embeddedSource(data) {
  const id = data.session.head.id;
  const standing = { status: data.session.head.outcome ? "ended" : "unfinished", forks: [] };
  const missing = { problem: "Left out of the exported page, which would have become too long." };
  return {
    isLive: false,
    id,
    machine: async () => data.machine,
    session: async (asked) => {
      if (asked === id) return { ...data.session, standing };
      if (data.parent && asked === data.parent.head.id) return { ...data.parent, standing };
      throw new Error("The exported page does not hold this session.");
    },
    // The entries have their texts already, as far as the page has them.
    entry: async (_, number) => data.session.entries[number],
    decision: async (_, number) => data.decisions[number] ?? missing,
    diff: async (_, number) => data.diffs[number] ?? missing,
    follow: () => () => {},
  };
}

// A server that wants its token in a header.
export function serverSource(token) {
  const headers = { authorization: `Bearer ${token}` };
  const get = async (path) => {
    let answer;
    try {
      answer = await fetch(path, { headers });
    } catch {
      throw new Error("rawko inspect does not answer any more. Start it again, and open the address that it prints.");
    }
    if (answer.status === 401) {
      throw new Error("This page has no access any more. Open the address that rawko inspect printed.");
    }
    const value = await answer.json();
    if (!answer.ok) throw new Error(value.error);
    return value;
  };
  const of = (id) => `/api/sessions/${encodeURIComponent(id)}`;
  return {
    isLive: true,
    machine: () => get("/api/machine"),
    project: () => get("/api/project"),
    sessions: () => get("/api/sessions"),
    session: (id) => get(of(id)),
    entry: (id, number) => get(`${of(id)}/entries/${number}`),
    decision: (id, number) => get(`${of(id)}/decisions/${number}`),
    diff: (id, number) => get(`${of(id)}/diffs/${number}`),
    follow: (id, after, change, lost) => followSession(`${of(id)}/follow`, headers, after, change, lost),
  };
}

// Server-sent events by `fetch`: `EventSource` sends no header. A connection that breaks is made again where it stopped.
function followSession(path, headers, after, change, lost) {
  const stop = new AbortController();
  let last = after;
  const read = async () => {
    const answer = await fetch(`${path}?after=${last}`, { headers, signal: stop.signal });
    if (!answer.ok) throw new Error("not followed");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const messages = (rest + value).split("\n\n");
      rest = messages.pop();
      for (const message of messages) {
        const data = message.split("\n").find((line) => line.startsWith("data: "));
        if (!data) continue;
        const news = JSON.parse(data.slice(6));
        last = news.head.records;
        change(news);
      }
    }
  };
  (async () => {
    while (!stop.signal.aborted) {
      try {
        await read();
      } catch {
        if (stop.signal.aborted) return;
        lost();
      }
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
  })();
  return () => stop.abort();
}
