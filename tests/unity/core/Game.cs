using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace Tau.Core.Tests
{
    /// <summary>Small data sets, written by .NET's own writer: words and vectors that a test can foresee.</summary>
    public static class GameData
    {
        /// <summary>Forty training rows with ten answers and twelve held-out rows; vectors without meaning.</summary>
        public static readonly TauDataset Forty = TauDataset.Read(
            Bytes(Rows("train", 40), Rows("held", 12)), "game.tau");

        /// <summary>A task on <see cref="Forty"/>.</summary>
        public static TauTask Task(string profile = "tau3", TauRules rules = null)
        {
            return new TauTask(Forty, TauProfile.Get(profile), rules);
        }

        /// <summary>Rows "train question 7" with the answer "answer 7", of which there are ten.</summary>
        public static (string Prompt, string Answer)[] Rows(string name, int count)
        {
            return Enumerable.Range(0, count).Select(row => ($"{name} question {row}", $"answer {row % 10}")).ToArray();
        }

        /// <summary>The bytes of a data set with these rows.</summary>
        public static byte[] Bytes(
            IReadOnlyList<(string Prompt, string Answer)> train,
            IReadOnlyList<(string Prompt, string Answer)> held,
            params string[] skipped)
        {
            var answers = train.Concat(held).Select(row => row.Answer).Distinct().ToList();
            var known = train.Select(row => row.Answer).Distinct().Count();
            var file = new MemoryStream();
            using (var writer = new BinaryWriter(file, Encoding.UTF8))
            {
                writer.Write(Encoding.ASCII.GetBytes("TAU-DATA"));
                writer.Write(1);
                writer.Write("test encoder");
                writer.Write(skipped.Length);
                skipped.ToList().ForEach(writer.Write);
                writer.Write(answers.Count);
                writer.Write(known);
                answers.ForEach(writer.Write);
                answers.ForEach(answer => Write(writer, answer));
                answers.SelectMany(Token).ToList().ForEach(writer.Write);
                foreach (var rows in new[] { train, held })
                {
                    writer.Write(rows.Count);
                    rows.Select(row => row.Prompt).ToList().ForEach(writer.Write);
                    rows.Select(row => answers.IndexOf(row.Answer)).ToList().ForEach(writer.Write);
                    rows.ToList().ForEach(row => Write(writer, row.Prompt));
                }
            }
            return file.ToArray();
        }

        /// <summary>The target of an answer in profile `tau3`; it depends on the text alone.</summary>
        public static float[] Token(string text)
        {
            return Enumerable.Range(0, 3).Select(column => (Hash(text, column) % 2001 / 1000f) - 1f).ToArray();
        }

        /// <summary>A vector of small whole numbers in half precision: 1 is 0x3C00, 2 is 0x4000, with a sign.</summary>
        private static void Write(BinaryWriter writer, string text)
        {
            for (var column = 0; column < TauProfile.EmbeddingSize; column++)
            {
                var hash = Hash(text, column);
                writer.Write((ushort)((hash % 2 == 0 ? 0x3C00 : 0x4000) | (hash / 2 % 2 == 0 ? 0 : 0x8000)));
            }
        }

        /// <summary>FNV-1a, without its lowest bits and its sign.</summary>
        private static int Hash(string text, int column)
        {
            return (int)(text.Aggregate(2166136261u + (uint)column, (sum, letter) => (sum ^ letter) * 16777619u) >> 5);
        }
    }

    /// <summary>An agent that remembers every call. Its policy says what it answers at once; null: nothing.</summary>
    public sealed class FakeAgent : ITauAgent
    {
        private readonly Action<FakeAgent> _policy;

        /// <summary>An agent with this policy, called in every request.</summary>
        public FakeAgent(Action<FakeAgent> policy = null)
        {
            _policy = policy;
        }

        /// <summary>The other half of the pair.</summary>
        public AgentTrainer Trainer { get; set; }

        /// <summary>Names of all calls, in order.</summary>
        public List<string> Calls { get; } = new List<string>();

        /// <summary>Prompts, by request.</summary>
        public List<float[]> Prompts { get; } = new List<float[]>();

        /// <summary>Targets, by request.</summary>
        public List<float[]> Targets { get; } = new List<float[]>();

        /// <summary>Rewards, in order.</summary>
        public List<float> Rewards { get; } = new List<float>();

        /// <summary>Name of the call that throws; null: none.</summary>
        public string Broken { get; set; }

        /// <summary>Told of every call.</summary>
        public Action<string> Watch { get; set; } = _ => { };

        /// <summary>Between Activate and Deactivate.</summary>
        public bool Active { get; private set; }

        /// <summary>An agent that always outputs this number, at once.</summary>
        public static FakeAgent Constant(float value)
        {
            return new FakeAgent(agent => agent.Answer(value));
        }

        /// <summary>Makes the other half of the pair.</summary>
        public AgentTrainer Train(
            TauTask task, long seed = 1, int id = 0, TauStats stats = null, RewardWindow window = null)
        {
            return Trainer = new AgentTrainer(id, task, this, seed, window, stats);
        }

        /// <summary>The same, with a run that has begun.</summary>
        public AgentTrainer Start(TauTask task, long seed = 1, int id = 0, long quota = 0)
        {
            Train(task, seed, id).RunAsync(quota, CancellationToken.None);
            return Trainer;
        }

        /// <summary>Gives an action with this number everywhere.</summary>
        public void Answer(float value)
        {
            Trainer.Answer(Enumerable.Repeat(value, Targets.Last().Length).ToArray());
        }

        /// <summary>How often the call was made.</summary>
        public int Count(string call)
        {
            return Calls.Count(name => name == call);
        }

        /// <inheritdoc/>
        public void Activate()
        {
            Active = true;
            Note(nameof(Activate));
        }

        /// <inheritdoc/>
        public void Deactivate()
        {
            Active = false;
            Note(nameof(Deactivate));
        }

        /// <inheritdoc/>
        public void RequestDecision(float[] prompt, float[] target)
        {
            Prompts.Add(prompt);
            Targets.Add(target);
            Note(nameof(RequestDecision));
            _policy?.Invoke(this);
        }

        /// <inheritdoc/>
        public void SetReward(float reward)
        {
            Rewards.Add(reward);
            Note(nameof(SetReward));
        }

        /// <inheritdoc/>
        public void EndEpisode()
        {
            Note(nameof(EndEpisode));
        }

        /// <inheritdoc/>
        public void EpisodeInterrupted()
        {
            Note(nameof(EpisodeInterrupted));
        }

        private void Note(string call)
        {
            Calls.Add(call);
            Watch(call);
            if (Broken == call)
            {
                throw new FormatException($"the {call} is broken.");
            }
        }
    }

    /// <summary>N pairs of fake agents with their trainer.</summary>
    public sealed class ParallelGame
    {
        /// <summary>Pairs that are not started.</summary>
        public ParallelGame(
            int pairs, int maxConcurrent, Func<int, FakeAgent> agent, long quota, long seed = 1, TauStats stats = null)
        {
            var task = stats?.Task ?? GameData.Task();
            Agents = Enumerable.Range(0, pairs).Select(agent).ToArray();
            Pairs = Agents.Select((each, id) => new AgentTrainerPair(
                each.Train(task, seed, id, stats), each, quota)).ToArray();
            Trainer = new ParallelTrainer(Pairs.Reverse().ToArray(), maxConcurrent, stats);
        }

        /// <summary>The agents, by id.</summary>
        public FakeAgent[] Agents { get; }

        /// <summary>The pairs, by id.</summary>
        public AgentTrainerPair[] Pairs { get; }

        /// <summary>What runs them.</summary>
        public ParallelTrainer Trainer { get; }

        /// <summary>The report when it is over; begun with <see cref="Begin"/>.</summary>
        public Task<CentralReport> Run { get; private set; }

        /// <summary>Calls this at every call of an agent, with its id and the call's name.</summary>
        public void Watch(Action<int, string> watch)
        {
            for (var id = 0; id < Agents.Length; id++)
            {
                var number = id;
                Agents[id].Watch = call => watch(number, call);
            }
        }

        /// <summary>Begins, and steps so often.</summary>
        public ParallelGame Begin(int steps = 0, CancellationToken token = default)
        {
            Run = Trainer.RunAsync(token);
            return Step(steps);
        }

        /// <summary>Steps so often.</summary>
        public ParallelGame Step(int steps)
        {
            for (var step = 0; step < steps; step++)
            {
                Trainer.Step();
            }
            return this;
        }

        /// <summary>The report of a run that has to be over by now.</summary>
        public CentralReport Report()
        {
            // the task's own thread says so a moment later
            Assert.True(Run.Wait(TimeSpan.FromSeconds(10)), "the run is not over");
            return Run.Result;
        }
    }
}
