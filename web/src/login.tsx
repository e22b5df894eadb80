// The way in.

import { useState } from "preact/hooks";
import { api, type Session } from "./api";
import { Failure } from "./ui";

export function Login({ enter }: { enter: (session: Session) => void }) {
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const [failed, setFailed] = useState("");
  const [isBusy, setBusy] = useState(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailed("");
    try {
      enter(await api.logIn(user, password));
    } catch (error) {
      setPassword("");
      setFailed((error as Error).message);
      setBusy(false);
    }
  };
  return (
    <main class="login">
      <form onSubmit={submit}>
        <div class="brand">
          <img src="/icon.svg" alt="" width="34" height="34" />
          <h1>Trunkline</h1>
        </div>
        <label>
          User
          <input
            name="user"
            autocomplete="username"
            autofocus
            value={user}
            onInput={(event) => setUser(event.currentTarget.value)}
          />
        </label>
        <label>
          Password
          <input
            name="password"
            type="password"
            autocomplete="current-password"
            value={password}
            onInput={(event) => setPassword(event.currentTarget.value)}
          />
        </label>
        <Failure text={failed} />
        <button type="submit" class="primary" disabled={isBusy || !password}>
          Log in
        </button>
        <p class="quiet">An account of the admin port; or a token of the API, without a user.</p>
      </form>
    </main>
  );
}
