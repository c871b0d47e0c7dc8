using System;
using System.Linq;
using Tau.Core;
using Tau.Core.Tests;
using Unity.InferenceEngine;
using Unity.MLAgents;
using UnityEngine;

namespace Tau.Play
{
    /// <summary>A trained model in a scene that asks it.</summary>
    internal static class Model
    {
        /// <summary>The packed data set.</summary>
        public static readonly TauDataset Data = TauDataset.Load(TestData.DataSetPath);

        /// <summary>The answers' vectors.</summary>
        public static readonly float[][] Targets = TauTargets.Of(Data, TauProfile.Get("tau3"));

        /// <summary>A model that knows every question.</summary>
        public static float[] Perfect(AgentMessage said)
        {
            float[] prompt = said.Of("VectorSensor_size384");
            foreach (TauSplit split in new[] { Data.Train, Data.Evaluation })
            {
                for (var i = 0; i < split.Count; i++)
                {
                    if (split.Prompts[i].AsSpan().SequenceEqual(prompt))
                    {
                        return Targets[split.AnswerIndex[i]];
                    }
                }
            }
            throw new AssertException("the model was shown something that is no prompt");
        }

        /// <summary>A scene with a console and this model; null: one that does not load.</summary>
        public static TauConsole Made(Func<AgentMessage, float[]> model)
        {
            Resources.Packed[TauAnswerer.ModelResource] = new ModelAsset { Answer = model };
            return TauSceneBuilder.Build(SceneKind.Inference).GetComponent<TauConsole>();
        }

        /// <summary>The scene's answerer.</summary>
        public static TauAnswerer Answerer()
        {
            return World.All().Select(each => each.GetComponent<TauAnswerer>()).First(each => each != null);
        }

        /// <summary>Red lines that hold a text.</summary>
        public static int Mistakes(TauConsole console, string part)
        {
            return console.Lines.Count(line => line.Kind == ConsoleText.Kind.Mistake && line.Text.Contains(part));
        }

        /// <summary>The last line of a console.</summary>
        public static string Last(TauConsole console)
        {
            return console.Lines[console.Lines.Count - 1].Text;
        }
    }
}
