using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Threading;
using Tau.Core;
using Tau.Core.Tests;
using Unity.MLAgents;
using UnityEngine;

namespace Tau.Play
{
    /// <summary>
    /// A game without an engine: one empty scene, nobody typing, and a trainer or none. It belongs to the thread that
    /// made it, and to one test.
    /// </summary>
    internal sealed class Stage
    {
        private readonly Posted _posted = new Posted();

        /// <summary>A new game.</summary>
        /// <param name="trainer">How the connected trainer decides; null: none is connected.</param>
        public Stage(Func<AgentMessage, float[]> trainer = null)
        {
            SynchronizationContext.SetSynchronizationContext(_posted);
            Academy.End();
            Trainer = trainer == null ? null : new Communicator(trainer);
            Academy.Trainer = Trainer;
            World.Reset();
            Debug.Lines.Clear();
            Resources.Packed.Clear();
            UnityEngine.Random.Reset();
            Application.isBatchMode = false;
            Application.isEditor = false;
            Application.runInBackground = false;
            Application.Exits.Clear();
            Application.streamingAssetsPath = Path.GetDirectoryName(Path.GetDirectoryName(TestData.DataSetPath));
            GUI.Focused = "";
        }

        /// <summary>The connected trainer; null: none.</summary>
        public Communicator Trainer { get; }

        /// <summary>The manager of the open scenes; null: none.</summary>
        public ParallelTrainerManager Manager => ParallelTrainerManager.FindExisting();

        /// <summary>The console of the open scenes; null: none.</summary>
        public TauConsole Console => World.All().Select(each => each.GetComponent<TauConsole>())
            .FirstOrDefault(console => console != null);

        /// <summary>The agents in the open scenes.</summary>
        public TauAgent[] Agents => World.All().Select(each => each.GetComponent<TauAgent>())
            .Where(agent => agent != null).ToArray();

        /// <summary>A trainer that gives every agent this action.</summary>
        public static Stage WithTrainer(params float[] action)
        {
            float[] given = action.Length > 0 ? action : new float[3];
            return new Stage(message => given);
        }

        /// <summary>Trains in a new scene, and returns its manager.</summary>
        public ParallelTrainerManager Train(params string[] arguments)
        {
            ParallelTrainerManager manager = TauSceneBuilder.Build(SceneKind.Tau)
                .GetComponent<ParallelTrainerManager>();
            manager.StartTraining(TauOptions.Parse(arguments));
            return manager;
        }

        /// <summary>Frames.</summary>
        /// <param name="frames">How many.</param>
        /// <param name="steps">Steps of the academy in each.</param>
        public void Play(int frames = 1, int steps = 1)
        {
            for (var i = 0; i < frames; i++)
            {
                Time.unscaledTime += 1f;
                World.Frame(steps, _posted.Run);
            }
        }

        /// <summary>Frames until something holds.</summary>
        public void PlayUntil(Func<bool> holds, int atMost = 500)
        {
            for (var i = 0; !holds(); i++)
            {
                Assert.True(i < atMost, $"does not hold after {atMost} frames; log: {Log()}");
                Play();
            }
        }

        /// <summary>What async code has posted, without a frame.</summary>
        public void RunPosted()
        {
            _posted.Run();
        }

        /// <summary>The game ends: everybody is told, the academy goes, and then the scenes.</summary>
        public void Quit()
        {
            World.Tell("OnApplicationQuit");
            Academy.End();
            foreach (UnityEngine.SceneManagement.SceneState scene in UnityEngine.SceneManagement.SceneManager.All)
            {
                World.Close(scene);
            }
        }

        /// <summary>A key goes down and a frame's events follow.</summary>
        public void Press(KeyCode key, char character = '\0')
        {
            Send(new Event { type = EventType.Layout });
            Send(new Event { type = EventType.KeyDown, keyCode = key });
            if (character != '\0')
            {
                Send(new Event { type = EventType.KeyDown, character = character });
            }
            Send(new Event { type = EventType.Layout });
            Send(new Event { type = EventType.Repaint });
        }

        /// <summary>Types characters.</summary>
        public void Type(string text)
        {
            foreach (char each in text)
            {
                Press(KeyCode.None, each);
            }
        }

        /// <summary>Sets a saved field, as the editor's inspector does.</summary>
        public static void Set(Component component, string field, object value)
        {
            FieldInfo saved = component.GetType().GetField(field, BindingFlags.Instance | BindingFlags.NonPublic);
            Assert.True(saved?.GetCustomAttribute<SerializeField>() != null, $"the editor saves no field {field}");
            saved.SetValue(component, value);
        }

        /// <summary>Nothing went wrong that Unity would show in red, and ML-Agents warned of nothing.</summary>
        public void AssertQuiet()
        {
            string[] loud = Debug.Lines.Where(line => line.Kind != "Log").Select(line => line.Text).ToArray();
            Assert.True(loud.Length == 0, string.Join(" | ", loud));
        }

        /// <summary>The central reports in the log.</summary>
        public static int Reports()
        {
            return Debug.Of("Log").Count(text => text.Contains("peak"));
        }

        private static string Log()
        {
            return string.Join(" | ", Debug.Lines.Select(line => line.Text).Reverse().Take(5));
        }

        private static void Send(Event happened)
        {
            Event.current = happened;
            GUI.Drawn.Clear();
            World.Tell("OnGUI");
        }

        /// <summary>The main thread's queue: Unity runs it once a frame, after Update.</summary>
        private sealed class Posted : SynchronizationContext
        {
            private readonly Queue<Action> _queue = new Queue<Action>();

            public override void Post(SendOrPostCallback callback, object state)
            {
                lock (_queue)
                {
                    _queue.Enqueue(() => callback(state));
                }
            }

            public void Run()
            {
                int count = Count();
                for (var i = 0; i < count; i++)
                {
                    World.Guard(Take());
                }
            }

            private int Count()
            {
                lock (_queue)
                {
                    return _queue.Count;
                }
            }

            private Action Take()
            {
                lock (_queue)
                {
                    return _queue.Dequeue();
                }
            }
        }
    }
}
