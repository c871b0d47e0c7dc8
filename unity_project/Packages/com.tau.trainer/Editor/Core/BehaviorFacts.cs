using System.Collections.Generic;
using System.Globalization;
using System.Linq;

namespace Tau.Trainer
{
    /// <summary>One agent of a scene, as far as training is concerned.</summary>
    public sealed class BehaviorFacts
    {
        /// <summary>The behavior's name.</summary>
        public string Name { get; set; }

        /// <summary>Name of the agent's object, for messages.</summary>
        public string Place { get; set; }

        /// <summary>The team's number.</summary>
        public int Team { get; set; }

        /// <summary>Numbers in its vector observation, of all stacked ones.</summary>
        public int VectorSize { get; set; }

        /// <summary>Names of the types of its other sensors.</summary>
        public IReadOnlyList<string> Sensors { get; set; } = new string[0];

        /// <summary>Number of continuous actions.</summary>
        public int Continuous { get; set; }

        /// <summary>Number of values of each discrete action.</summary>
        public IReadOnlyList<int> Branches { get; set; } = new int[0];

        /// <summary>Whether a model or a heuristic decides, and no trainer.</summary>
        public string FixedType { get; set; }

        /// <summary>Whether it has an agent script.</summary>
        public bool HasAgent { get; set; } = true;

        /// <summary>Whether a Decision Requester asks for its decisions.</summary>
        public bool HasRequester { get; set; } = true;

        /// <summary>Observations and actions, in words.</summary>
        public string Sizes
        {
            get
            {
                var observations = new List<string>();
                if (VectorSize > 0)
                {
                    observations.Add(Text(VectorSize) + " numbers");
                }
                observations.AddRange(Sensors);
                var actions = new List<string>();
                if (Continuous > 0)
                {
                    actions.Add(Text(Continuous) + " continuous");
                }
                if (Branches.Count > 0)
                {
                    actions.Add("discrete " + string.Join("×", Branches.Select(Text)));
                }
                return "observes " + Listed(observations) + "; acts with " + Listed(actions);
            }
        }

        /// <summary>A line for each behavior: name, agents, teams, sizes.</summary>
        public static IReadOnlyList<string> Summaries(IEnumerable<BehaviorFacts> agents)
        {
            return agents.GroupBy(agent => agent.Name).OrderBy(group => group.Key, System.StringComparer.Ordinal)
                .Select(Summary).ToArray();
        }

        /// <summary>A sentence for everything that would not train: what is wrong, and what to do.</summary>
        public static IReadOnlyList<string> Warnings(IEnumerable<BehaviorFacts> agents)
        {
            BehaviorFacts[] all = agents.ToArray();
            var found = new List<string>();
            if (all.Length == 0)
            {
                found.Add("The open scene has no agent: open a scene with Behavior Parameters.");
            }
            found.AddRange(all.SelectMany(agent => agent.OwnWarnings()).Distinct());
            foreach (IGrouping<string, BehaviorFacts> group in all.GroupBy(agent => agent.Name))
            {
                BehaviorFacts first = group.First();
                BehaviorFacts other = group.FirstOrDefault(agent => agent.Sizes != first.Sizes);
                if (other != null)
                {
                    found.Add(
                        "Two agents have the behavior " + group.Key + " but different sizes: " + first.Place + " "
                        + first.Sizes + ", but " + other.Place + " " + other.Sizes
                        + ". Make them equal, or give them different names.");
                }
            }
            return found;
        }

        private static string Summary(IGrouping<string, BehaviorFacts> group)
        {
            int[] teams = group.Select(agent => agent.Team).Distinct().OrderBy(team => team).ToArray();
            string sides = teams.Length > 1 ? " in teams " + string.Join(", ", teams.Select(Text)) : string.Empty;
            int count = group.Count();
            string size = count == 1 ? "1 agent" : Text(count) + " agents";
            return group.Key + ": " + size + sides + "; " + group.First().Sizes;
        }

        private static string Listed(IReadOnlyCollection<string> parts)
        {
            return parts.Count == 0 ? "nothing" : string.Join(", ", parts);
        }

        private static string Text(int number)
        {
            return number.ToString(CultureInfo.InvariantCulture);
        }

        private IEnumerable<string> OwnWarnings()
        {
            string who = Place + " (" + Name + ")";
            if (FixedType != null)
            {
                yield return who + " does not train, because its Behavior Type is " + FixedType
                    + ": set it to Default.";
            }
            if (!HasAgent)
            {
                yield return who + " has no Agent: add your agent's script.";
            }
            else if (!HasRequester)
            {
                yield return who + " has no Decision Requester: add one, unless a script calls RequestDecision.";
            }
            if (VectorSize == 0 && Sensors.Count == 0)
            {
                yield return who + " observes nothing: set Space Size, or add a sensor.";
            }
            if (Continuous == 0 && Branches.Count == 0)
            {
                yield return who + " has no actions: set Continuous Actions or Discrete Branches.";
            }
        }
    }
}
