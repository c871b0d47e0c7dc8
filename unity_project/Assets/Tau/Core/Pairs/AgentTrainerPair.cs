using System;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core
{
    /// <summary>One agent with its trainer and its number of decisions.</summary>
    public sealed class AgentTrainerPair
    {
        private readonly long _quota;

        /// <summary>A new pair, not started.</summary>
        /// <param name="trainer">The training side.</param>
        /// <param name="agent">The acting side, the same as the trainer's.</param>
        /// <param name="quota">Decisions of a run; 0: until it is cancelled.</param>
        public AgentTrainerPair(AgentTrainer trainer, ITauAgent agent, long quota)
        {
            Trainer = trainer ?? throw new ArgumentNullException(nameof(trainer));
            Agent = agent ?? throw new ArgumentNullException(nameof(agent));
            _quota = quota;
        }

        /// <summary>The pair's number, equal to its agent's.</summary>
        public int Id => Trainer.Id;

        /// <summary>The training side.</summary>
        public AgentTrainer Trainer { get; }

        /// <summary>The acting side.</summary>
        public ITauAgent Agent { get; }

        /// <summary>Checks that the pair can run.</summary>
        /// <exception cref="TauException">The pair cannot run; its state is then failed.</exception>
        public void Initialize()
        {
            Trainer.Initialize();
        }

        /// <summary>Runs the pair to its end; see <see cref="AgentTrainer.RunAsync"/>.</summary>
        public Task StartAsync(CancellationToken token)
        {
            return Trainer.RunAsync(_quota, token);
        }

        /// <summary>Cancels only this pair; if it waits for its turn, it never starts.</summary>
        public void Stop()
        {
            Trainer.Stop();
        }

        /// <summary>Counts and means since the run started.</summary>
        public PairMetrics Metrics()
        {
            return Trainer.Metrics();
        }
    }
}
