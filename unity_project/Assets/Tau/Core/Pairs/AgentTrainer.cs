using System;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core
{
    /// <summary>
    /// The training side of one agent: draws prompts, pays answers, keeps episodes and counts. All members belong to
    /// one thread, the game's main thread; only the cancellation of a run may come from another. The order of a step is
    /// that of the trainer's headless engine, so that equal seeds and actions give equal prompts, rewards and ends.
    /// </summary>
    public sealed class AgentTrainer
    {
        private readonly ITauAgent _agent;
        private readonly PairDecisions _decisions;
        private readonly Action _ask;
        private PairRun _run;
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
            _decisions = new PairDecisions(id, task, window, stats);
            _decisions.Seed(seed);
            _ask = Ask;
        }

        /// <summary>The agent's number.</summary>
        public int Id { get; }

        /// <summary>Where the pair stands.</summary>
        public PairState State { get; private set; }

        /// <summary>A copy of the last answer, clipped to [-1, 1].</summary>
        /// <exception cref="InvalidOperationException">
        /// There is none yet, or a decision is open: the old answer must not be read for the new one.
        /// </exception>
        public float[] Output
        {
            get
            {
                if (State == PairState.Training || _decisions.Count == 0)
                {
                    throw PairFault.Misuse(Id, "has no answer to its last prompt yet");
                }
                return _decisions.CopyOutput();
            }
        }

        /// <summary>Starts the stream of prompts anew; an open decision stays open.</summary>
        public void Seed(long seed)
        {
            _decisions.Seed(seed);
        }

        /// <summary>Checks what the run needs; draws nothing.</summary>
        /// <exception cref="TauException">The pair cannot be run; it is failed then.</exception>
        public void Initialize()
        {
            if (!_decisions.StatsFit)
            {
                var error = new TauException(
                    PairFault.Sentence(Id, "reports to the statistics of another task; give both the same"));
                Settle(PairState.Failed, error);
                throw error;
            }
        }

        /// <summary>
        /// Activates the agent and ends when enough decisions are answered; then the agent is deactivated, after an
        /// episode that goes on was interrupted. The task completes on the main thread, inside of the call that ends
        /// the run; it is cancelled or faulted as <see cref="State"/> says. A pair runs once.
        /// </summary>
        /// <param name="quota">Decisions to answer; 0: until it is cancelled.</param>
        /// <param name="token">
        /// Ends the run at once, whether or not a decision is open. From another thread it takes effect through this
        /// thread's synchronization context or in the next <see cref="Step"/>, whichever comes first.
        /// </param>
        /// <exception cref="InvalidOperationException">The pair was run or has failed before.</exception>
        public Task RunAsync(long quota, CancellationToken token)
        {
            if (_run != null || State == PairState.Failed)
            {
                throw PairFault.Misuse(Id, "was started before; make a new pair");
            }
            _run = new PairRun(quota, token);
            if (State == PairState.Cancelled || token.IsCancellationRequested)
            {
                Settle(PairState.Cancelled, null);
                return _run.Task;
            }
            _active = true;
            Guarded(_agent.Activate);
            if (_active)
            {
                _run.Watch(Stop);
            }
            return _run.Task;
        }

        /// <summary>
        /// To be called once in each step of the game: draws the next prompt and asks for a decision. Nothing happens
        /// while a decision is open, nor before or after the run.
        /// </summary>
        public void Step()
        {
            if (!_active)
            {
                return;
            }
            if (_run.CancelRequested)
            {
                Stop();
            }
            else if (State != PairState.Training)
            {
                Guarded(_ask);
            }
        }

        /// <summary>The agent's action: it is clipped to [-1, 1], paid, counted, and may end the episode.</summary>
        /// <param name="output">One number an action; copied.</param>
        /// <exception cref="InvalidOperationException">No decision is open.</exception>
        public void Answer(float[] output)
        {
            if (State != PairState.Training)
            {
                throw PairFault.Misuse(Id, "was given an action that it did not ask for");
            }
            try
            {
                Pay(output);
            }
            catch (Exception error)
            {
                End(PairState.Failed, error);
            }
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

        /// <summary>Ends the run as a cancellation does; before the run it keeps the pair from starting.</summary>
        public void Stop()
        {
            if (_active)
            {
                End(PairState.Cancelled, null);
            }
            else if (_run == null && State == PairState.Idle)
            {
                State = PairState.Cancelled;
            }
        }

        /// <summary>Counts and means so far; between decisions a running pair counts as training.</summary>
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
            var last = _run.Quota > 0 && _decisions.Count >= _run.Quota;
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
            _run.Leave();
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
            _error = PairFault.Of(Id, error);
            _run?.Close(state, error);
        }
    }
}
