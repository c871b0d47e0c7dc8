using System.Linq;
using Tau.Core.Tests;

namespace Tau.Trainer.Tests
{
    public sealed class BehaviorTests
    {
        [Test]
        public void AGoodSceneHasALineForEachBehaviorAndNoWarning()
        {
            BehaviorFacts[] agents = { Agent("Goalie", 1), Agent("Goalie", 0), Agent("Ball", 0) };
            agents[2].Sensors = new[] { "CameraSensorComponent" };
            agents[2].Branches = new[] { 3, 2 };
            agents[2].Continuous = 0;
            Assert.Sequence(
                new[]
                {
                    "Ball: 1 agent; observes 4 numbers, CameraSensorComponent; acts with discrete 3×2",
                    "Goalie: 2 agents in teams 0, 1; observes 4 numbers; acts with 2 continuous",
                },
                BehaviorFacts.Summaries(agents));
            Assert.Equal(0, BehaviorFacts.Warnings(agents).Count);
        }

        [Test]
        public void WhatWouldNotTrainIsOneSentenceEach()
        {
            Warned("has no agent: open a scene");
            Warned("does not train, because its Behavior Type is Inference Only: set it to Default.", With(
                agent => agent.FixedType = "Inference Only"));
            Warned("has no Decision Requester: add one", With(agent => agent.HasRequester = false));
            Warned("has no Agent: add", With(agent => agent.HasAgent = agent.HasRequester = false));
            Warned("observes nothing: set Space Size", With(agent => agent.VectorSize = 0));
            Warned("has no actions: set", With(agent => agent.Continuous = 0));
            Warned(
                "Two agents have the behavior A but different sizes: place observes 4 numbers; acts with 2 continuous, but "
                + "place observes 5 numbers; acts with 2 continuous. Make them equal, or give them different names.",
                Agent("A", 0), With(agent => agent.VectorSize = 5));
        }

        private static void Warned(string sentence, params BehaviorFacts[] agents)
        {
            Assert.Contains(sentence, BehaviorFacts.Warnings(agents.Concat(agents)).Single());
        }

        private static BehaviorFacts With(System.Action<BehaviorFacts> change)
        {
            BehaviorFacts agent = Agent("A", 0);
            change(agent);
            return agent;
        }

        private static BehaviorFacts Agent(string name, int team)
        {
            return new BehaviorFacts { Name = name, Place = "place", Team = team, VectorSize = 4, Continuous = 2 };
        }
    }
}
