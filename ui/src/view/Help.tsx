import { Phase } from "./parts";
import { Dialog } from "./Dialog";

const KEYS = [
  ["/", "filter the jobs"],
  ["↑ ↓", "go through the jobs"],
  ["Enter", "open a job, press a button"],
  ["← →", "the tabs of a job"],
  ["Esc", "back to all jobs"],
  ["?", "this help"],
];

export function Help({ close }: { close: () => void }) {
  return (
    <Dialog title="Keyboard and colours" close={close}>
      <dl class="keys">
        {KEYS.map(([key, text]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
      <p class="legend">
        <Phase tone="good">Runs</Phase> <Phase tone="busy">Is on its way</Phase> <Phase tone="warn">Needs a look</Phase> <Phase tone="bad">Needs you</Phase> <Phase tone="rest">Rests</Phase>
      </p>
      <p class="faint">The page can do what you can do, and stores nothing. Charts begin when the command was started.</p>
      <div class="buttons">
        <button onClick={close}>Close</button>
      </div>
    </Dialog>
  );
}
