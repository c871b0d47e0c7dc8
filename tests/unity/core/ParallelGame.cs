using System;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>N pairs of fake agents with their trainer, and a loop that steps them as an engine does.</summary>
    public sealed class ParallelGame
    {
        /// <summary>Pairs that are not started.</summary>
        public ParallelGame(int pairs, int maxConcurrent, Func<int, FakeAgent> agent, long quota, long seed = 1)
        {
            var task = GameData.Task();
            Agents = Enumerable.Range(0, pairs).Select(agent).ToArray();
            Pairs = Agents.Select((each, id) => Pair(id, task, each, quota, seed)).ToArray();
            Trainer = new ParallelTrainer(Pairs, maxConcurrent);
        }

        /// <summary>The agents, by id.</summary>
        public FakeAgent[] Agents { get; }

        /// <summary>The pairs, by id.</summary>
        public AgentTrainerPair[] Pairs { get; }

        /// <summary>What runs them.</summary>
        public ParallelTrainer Trainer { get; }

        /// <summary>Agents that are active now.</summary>
        public int Active => Agents.Count(agent => agent.Active);

        /// <summary>Calls this after every call of an agent, with its id and the call's name.</summary>
        public void Watch(Action<int, string> watch)
        {
            for (var id = 0; id < Agents.Length; id++)
            {
                var number = id;
                Agents[id].Watch = call => watch(number, call);
            }
        }

        /// <summary>Calls this after every call of an agent.</summary>
        public void Watch(Action watch)
        {
            Watch((id, call) => watch());
        }

        /// <summary>Steps about once a millisecond until every pair has ended.</summary>
        public async Task<CentralReport> PlayAsync(bool dispose = true)
        {
            var run = Trainer.RunAsync(CancellationToken.None);
            while (!run.IsCompleted)
            {
                Trainer.Step();
                await Task.Delay(1);
            }
            if (dispose)
            {
                Trainer.Dispose();
            }
            return await run;
        }

        /// <summary>One pair, made of this agent.</summary>
        public static AgentTrainerPair Pair(
            int id, TauTask task, FakeAgent agent, long quota, long seed = 1, TauStats stats = null)
        {
            agent.Trainer = new AgentTrainer(id, task, agent, seed, null, stats);
            return new AgentTrainerPair(agent.Trainer, agent, quota);
        }
    }
}
