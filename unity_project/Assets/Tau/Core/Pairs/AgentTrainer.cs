using System;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core
{
    /// <summary>
    /// The training side of one agent: draws prompts, pays answers, keeps episodes and counts. All members belong to
    /// one thread, the game's main thread. The order of a step is that of the trainer's headless engine, so that equal
    /// seeds and actions give equal prompts, rewards and ends.
    /// </summary>
    public sealed class AgentTrainer
    {
        private readonly ITauAgent _agent;
        private readonly PairDecisions _decisions;
        private readonly bool _statsFit;
        private TaskCompletionSource<bool> _done;
        private CancellationToken _token;
        private long _quota;
        private bool _active;
        private string _error;

        /// <summary>A trainer for one agent.</summary>
        /// <param name="id">The agent's number from 0; its prompts depend on it and on the seed only.</param>
        /// <param name="task">Shared by all pairs.</param>
        /// <param name="agent">The acting side.</param>
        /// <param name="seed">Where the stream of prompts starts.</param>
        /// <param name="window">Aggregates the binary successes of an episode; null: each stands for itself.</param>
        /// <param name="stats">Shared by all pairs; null: no statistics, and accuracy is unknown.</param>
        public AgentTrainer(
            int id, TauTask task, ITauAgent agent, long seed, RewardWindow window = null, TauStats stats = null)
        {
            Id = id;
            _agent = agent ?? throw new ArgumentNullException(nameof(agent));
            _decisions = new PairDecisions(id, task, seed, window, stats);
            _statsFit = stats == null || stats.Task == task;
        }

        /// <summary>The agent's number.</summary>
        public int Id { get; }

        /// <summary>Where the pair stands.</summary>
        public PairState State { get; private set; }

        /// <summary>Checks what the run needs; draws nothing.</summary>
        /// <exception cref="TauException">The pair cannot be run; it is failed then.</exception>
        public void Initialize()
        {
            if (!_statsFit)
            {
                var error = new TauException(Sentence("reports to the statistics of another task; give both the same"));
                Settle(PairState.Failed, error);
                throw error;
            }
        }

        /// <summary>
        /// Activates the agent and ends when enough decisions are answered; then the agent is deactivated, after an
        /// episode that goes on was interrupted. The task completes inside of the call that ends the run; it is
        /// cancelled or faulted as <see cref="State"/> says. A pair runs once.
        /// </summary>
        /// <param name="quota">Decisions to answer; 0: until it is cancelled.</param>
        /// <param name="token">Ends the run in the next <see cref="Step"/>, also from another thread.</param>
        /// <exception cref="InvalidOperationException">The pair was run or has failed before.</exception>
        public Task RunAsync(long quota, CancellationToken token)
        {
            if (_done != null || State == PairState.Failed)
            {
                throw Misuse("was started before; make a new pair");
            }
            _done = new TaskCompletionSource<bool>();
            _quota = quota;
            _token = token;
            if (State == PairState.Cancelled || token.IsCancellationRequested)
            {
                Settle(PairState.Cancelled, null);
                return _done.Task;
            }
            _active = true;
            Guarded(_agent.Activate);
            return _done.Task;
        }

        /// <summary>
        /// To be called once in each step of the game: draws the next prompt and asks for a decision. Nothing happens
        /// while a decision is open, nor before or after the run.
        /// </summary>
        public void Step()
        {
            if (_active && _token.IsCancellationRequested)
            {
                Stop();
            }
            else if (_active && State != PairState.Training)
            {
                Guarded(Ask);
            }
        }

        /// <summary>The agent's action: it is clipped to [-1, 1], paid, counted, and may end the episode.</summary>
        /// <param name="output">One number an action; copied.</param>
        /// <exception cref="InvalidOperationException">No decision is open.</exception>
        public void Answer(float[] output)
        {
            if (State != PairState.Training)
            {
                throw Misuse("was given an action that it did not ask for");
            }
            Guarded(() => Pay(output));
        }

        /// <summary>
        /// The environment was reset: an open decision and the running episode are dropped. The stream of prompts goes
        /// on; the next prompt is drawn in the next <see cref="Step"/>.
        /// </summary>
        public void Reset()
        {
            if (_active)
            {
                State = PairState.Idle;
            }
            _decisions.BeginEpisode();
        }

        /// <summary>Ends the run at once, also with a decision open; a run that has not begun never does.</summary>
        public void Stop()
        {
            if (_active)
            {
                End(PairState.Cancelled, null);
            }
            else if (_done == null && State == PairState.Idle)
            {
                State = PairState.Cancelled;
            }
        }

        /// <summary>Counts and means so far.</summary>
        public PairMetrics Metrics()
        {
            return _decisions.Metrics(_active ? PairState.Training : State, _error);
        }

        private void Ask()
        {
            State = PairState.Preparing;
            _decisions.Draw(out var prompt, out var target);
            State = PairState.Training;
            _agent.RequestDecision(prompt, target);
        }

        /// <summary>Reward, end of the episode, end of the run: the agent hears of them in this order.</summary>
        private void Pay(float[] output)
        {
            var end = _decisions.Pay(output, out var reward);
            State = PairState.Idle;
            _agent.SetReward((float)reward);
            var last = _quota > 0 && _decisions.Count >= _quota;
            if (end == EpisodeEnd.Terminal)
            {
                _agent.EndEpisode();
            }
            else if (end == EpisodeEnd.Interrupted || last)
            {
                _agent.EpisodeInterrupted();
            }
            if (last)
            {
                End(PairState.Completed, null);
            }
        }

        /// <summary>Whatever goes wrong ends this pair and no other.</summary>
        private void Guarded(Action action)
        {
            try
            {
                action();
            }
            catch (Exception error)
            {
                End(PairState.Failed, error);
            }
        }

        private void End(PairState state, Exception error)
        {
            if (!_active)
            {
                return;
            }
            _active = false;
            State = state;
            try
            {
                _agent.Deactivate();
            }
            catch (Exception failure)
            {
                error = error ?? failure;
            }
            Settle(error == null ? state : PairState.Failed, error);
        }

        private void Settle(PairState state, Exception error)
        {
            State = state;
            if (error != null)
            {
                _error = error is TauException ? error.Message : Sentence(
                    $"failed in its agent ({error.GetType().Name}: {error.Message.TrimEnd('.')})");
                _done?.TrySetException(error);
            }
            else if (state == PairState.Cancelled)
            {
                _done.TrySetCanceled();
            }
            else
            {
                _done.TrySetResult(true);
            }
        }

        private InvalidOperationException Misuse(string rest)
        {
            return new InvalidOperationException(Sentence(rest));
        }

        private string Sentence(string rest)
        {
            return FormattableString.Invariant($"Pair {Id} {rest}.");
        }
    }
}
