using System;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core
{
    /// <summary>
    /// The training side of one agent: draws prompts, rewards answers, tracks episodes and statistics. Use all members
    /// on one thread, the game's main thread. The order of a step is that of the trainer's headless engine, so equal
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
        /// <param name="seed">Seed of the stream of prompts.</param>
        /// <param name="window">Aggregates the binary successes of an episode; null: no aggregation.</param>
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

        /// <summary>The pair's state.</summary>
        public PairState State { get; private set; }

        /// <summary>Checks that the pair can run; draws nothing.</summary>
        /// <exception cref="TauException">The pair cannot run; its state is then failed.</exception>
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
        /// Activates the agent and ends when enough decisions are answered. Then a running episode is interrupted and
        /// the agent is deactivated. The task completes within the call that ends the run; it is cancelled or faulted
        /// according to <see cref="State"/>. A pair runs only once.
        /// </summary>
        /// <param name="quota">Decisions to answer; 0: until it is cancelled.</param>
        /// <param name="token">Ends the run in the next <see cref="Step"/>; you can cancel from any thread.</param>
        /// <exception cref="InvalidOperationException">The pair has already run or failed.</exception>
        public Task RunAsync(long quota, CancellationToken token)
        {
            if (_done != null || State == PairState.Failed)
            {
                throw Misuse("was already started; make a new pair");
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
        /// Call it once in each step of the game: draws the next prompt and asks for a decision. It does nothing while
        /// a decision is open, or before or after the run.
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

        /// <summary>Takes the agent's action: clips it to [-1, 1], rewards and counts it, and possibly ends the
        /// episode.</summary> <param name="output">One number for each action; copied.</param> <exception
        /// cref="InvalidOperationException">No decision is open.</exception>
        public void Answer(float[] output)
        {
            if (State != PairState.Training)
            {
                throw Misuse("got an action that it did not request");
            }
            Guarded(() => Pay(output));
        }

        /// <summary>
        /// Handles a reset of the environment: drops an open decision and the running episode. The stream of prompts
        /// continues; the next <see cref="Step"/> draws the next prompt.
        /// </summary>
        public void Reset()
        {
            if (_active)
            {
                State = PairState.Idle;
            }
            _decisions.BeginEpisode();
        }

        /// <summary>Ends the run at once, even with an open decision; a run that has not started will never
        /// start.</summary>
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

        /// <summary>Reports reward, end of the episode and end of the run to the agent, in this order.</summary>
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

        /// <summary>Runs an action; an error ends only this pair.</summary>
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
